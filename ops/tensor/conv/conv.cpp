// Convolutions of images, filters, and pooling.
#include "../operations.hpp"

#include "../../../ir/error.hpp"
#include "conv_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace topograd::ops {
namespace {

using detail::Convolution;

// Upper bound of image sizes; sums of them and of sizes then fit 64 bits.
constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;

void check_options(const ConvOptions& o) {
  if (std::max({o.stride, o.padding, o.dilation}) > kMost) {
    throw Error(ErrorCode::InvalidArgument,
                "conv2d: expected stride, padding and dilation <= " + std::to_string(kMost) +
                    ", got " + std::to_string(o.stride) + ", " + std::to_string(o.padding) +
                    " and " + std::to_string(o.dilation));
  }
  if (o.stride < 1 || o.padding < 0 || o.dilation < 1) {
    throw Error(ErrorCode::InvalidArgument,
                "conv2d: expected stride >= 1, padding >= 0 and dilation >= 1, got " +
                    std::to_string(o.stride) + ", " + std::to_string(o.padding) + " and " +
                    std::to_string(o.dilation));
  }
}

/// A convolution of contiguous images with contiguous weights.
Convolution plain(const Shape& a, const Shape& w, const ConvOptions& o, Type type) {
  Convolution c{.type = type,
                .images = a[0],
                .channels = a[1],
                .outputs = w[0],
                .size = {a[2], a[3]},
                .kernel = {w[2], w[3]},
                .padding = {o.padding, o.padding},
                .stride = o.stride,
                .dilation = o.dilation};
  for (const std::size_t axis : {0u, 1u}) {
    const std::int64_t room = c.size[axis] + 2 * o.padding - o.dilation * (c.kernel[axis] - 1) - 1;
    c.out_size[axis] = room < 0 ? 0 : room / o.stride + 1;
  }
  c.channel_step = a[2] * a[3];
  c.image_step = a[1] * c.channel_step;
  c.weight_step = w[2] * w[3];
  c.output_step = w[1] * c.weight_step;
  return c;
}

Tensor finish(Convolution& c, const Tensor& in, const Tensor& weights,
              const std::optional<Device>& device) {
  Tensor out =
      detail::make_tensor({c.images, c.outputs, c.out_size[0], c.out_size[1]}, c.type, device);
  if (out.count() == 0) return out;
  c.in = detail::contiguous_data(in);
  c.weights = detail::contiguous_data(weights);
  c.out = out.state()->data;
  detail::convolve(c, device);
  return out;
}

/// Derivative by the images: convolves `g`, with its pixels spread apart, with the flipped weights.
Tensor pull_images(const Convolution& forward, const Tensor& g, const Tensor& weights,
                   const std::optional<Device>& device) {
  Convolution c = forward;
  std::swap(c.channels, c.outputs);
  std::swap(c.size, c.out_size);
  std::swap(c.output_step, c.weight_step);
  c.spacing = forward.stride;
  c.stride = 1;
  c.flipped = true;
  for (const std::size_t axis : {0u, 1u})
    c.padding[axis] = (c.kernel[axis] - 1) * c.dilation - forward.padding[axis];
  c.channel_step = c.size[0] * c.size[1];
  c.image_step = c.channels * c.channel_step;
  return finish(c, g, weights, device);
}

/// Derivative by the weights: convolves images and `g`, with channels and outputs as images.
Tensor pull_weights(const Convolution& forward, const Tensor& a, const Tensor& g,
                    const std::optional<Device>& device) {
  Convolution c = forward;
  std::swap(c.images, c.channels);
  std::swap(c.image_step, c.channel_step);
  std::swap(c.kernel, c.out_size);
  std::swap(c.stride, c.dilation);
  c.weight_step = c.outputs * c.kernel[0] * c.kernel[1];
  c.output_step = c.kernel[0] * c.kernel[1];
  return finish(c, a, g, device).transpose(0, 1);
}

}  // namespace

Tensor conv2d(const Tensor& a, const Tensor& weights, ConvOptions options) {
  const Tensor both[] = {a, weights};
  const Type type = detail::common_type("conv2d", both);
  const auto device = detail::common_device("conv2d", both);
  check_options(options);
  const bool shapes = a.rank() == 4 && weights.rank() == 4 && a.size(1) == weights.size(1);
  Convolution c;
  if (shapes) c = plain(a.shape(), weights.shape(), options, type);
  if (!shapes || c.out_size[0] == 0 || c.out_size[1] == 0 || weights.count() == 0) {
    throw Error(ErrorCode::Shape,
                "conv2d: expected images (n, channels, height, width) and weights (outputs, "
                "channels, rows, columns) that fit them, got " +
                    to_text(a.shape()) + " and " + to_text(weights.shape()));
  }
  check_shape("conv2d", {c.images, c.outputs, c.out_size[0], c.out_size[1]});
  const Tensor x = a.detach().to(type), w = weights.detach().to(type);
  Tensor out = finish(c, x, w, device);
  c.in = c.weights = c.out = {};
  detail::record(
      out, both,
      [c, x, w, device, has_a = a.has_grad(), has_w = weights.has_grad()](const Tensor& g) {
        std::vector<Tensor> grads(2);
        if (has_a) grads[0] = pull_images(c, g, w, device);
        if (has_w) grads[1] = pull_weights(c, x, g, device);
        return grads;
      });
  return out;
}

namespace {

/// Finds a column and a row whose product is the kernel; returns false if there are none.
bool separate(std::span<const double> kernel, std::int64_t rows, std::int64_t columns,
              std::vector<double>& column, std::vector<double>& row) {
  const auto largest = std::ranges::max_element(kernel, {}, [](double w) { return std::abs(w); });
  if (*largest == 0 || rows == 1 || columns == 1) return false;
  const auto at = static_cast<std::int64_t>(largest - kernel.begin());
  const std::int64_t r = at / columns, s = at % columns;
  const auto entry = [&](std::int64_t i, std::int64_t j) {
    return kernel[static_cast<std::size_t>(i * columns + j)];
  };
  for (std::int64_t i = 0; i < rows; ++i) column.push_back(entry(i, s));
  for (std::int64_t j = 0; j < columns; ++j) row.push_back(entry(r, j) / *largest);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double product = column[static_cast<std::size_t>(i)] * row[static_cast<std::size_t>(j)];
      if (std::abs(entry(i, j) - product) > 1e-12 * std::abs(*largest)) return false;
    }
  }
  return true;
}

struct Filter {
  std::vector<double> kernel;
  std::int64_t rows, columns;
};

/// The convolution of contiguous images with a filter, except for border pixels.
Convolution filtering(const Tensor& images, const Filter& f) {
  const Shape flat = {images.count() / std::max<std::int64_t>(1, images.size(-2) * images.size(-1)),
                      1, images.size(-2), images.size(-1)};
  return plain(flat, {1, 1, f.rows, f.columns}, {}, images.type());
}

Tensor weights_of(const Filter& f, Type type) {
  return tensor(f.kernel, {1, 1, f.rows, f.columns}, type);
}

Tensor filter_once(const Tensor& images, const Filter& f) {
  Convolution c = filtering(images, f);
  c.clamped = true;
  c.padding = {f.rows / 2, f.columns / 2};
  c.out_size = c.size;
  return finish(c, images, weights_of(f, images.type()), images.placed()).reshape(images.shape());
}

/// Adds the pixels beyond the border on both sides of an axis to the border.
Tensor fold_border(const Tensor& g, std::size_t axis, std::int64_t beyond) {
  if (beyond == 0) return g;
  const auto along = static_cast<std::int64_t>(axis);
  const std::int64_t size = g.size(along) - 2 * beyond;
  const Tensor middle = g.slice(along, beyond, beyond + size);
  const Tensor before = sum(g.slice(along, 0, beyond), {along}, true);
  const Tensor behind = sum(g.slice(along, beyond + size, g.size(along)), {along}, true);
  return middle + detail::place_slice(before, middle.shape(), axis, 0, 1) +
         detail::place_slice(behind, middle.shape(), axis, size - 1, 1);
}

/// The transpose of filter_once(): distributes each pixel to the pixels that contributed to it.
Tensor spread_once(const Tensor& g, const Filter& f) {
  Convolution c = filtering(g, f);
  c.flipped = true;
  c.padding = {f.rows - 1, f.columns - 1};
  c.out_size = {c.size[0] + f.rows - 1, c.size[1] + f.columns - 1};
  const Tensor wide = finish(c, g, weights_of(f, g.type()), g.placed());
  return fold_border(fold_border(wide, 2, f.rows / 2), 3, f.columns / 2).reshape(g.shape());
}

}  // namespace

Tensor filter2d(const Tensor& images, std::span<const double> kernel, std::int64_t rows,
                std::int64_t columns, bool* separated) {
  detail::state_of("filter2d", images);
  if (images.rank() < 2) {
    throw Error(ErrorCode::Shape,
                "filter2d: expected images (..., height, width), got " + to_text(images.shape()));
  }
  if (rows < 1 || columns < 1 || rows % 2 == 0 || columns % 2 == 0 ||
      kernel.size() != static_cast<std::size_t>(rows * columns)) {
    throw Error(ErrorCode::Shape, "filter2d: expected a kernel of odd sizes, got " +
                                      std::to_string(kernel.size()) + " numbers for " +
                                      to_text({rows, columns}));
  }
  const Tensor wide = images.type() == Type::f16 ? images.to(Type::f32) : images;
  Tensor plain_images = wide.detach();
  std::vector<double> column, row;
  const bool product = separate(kernel, rows, columns, column, row);
  if (separated != nullptr) *separated = product;
  if (images.count() == 0) return plain_images;
  std::vector<Filter> filters = {{{kernel.begin(), kernel.end()}, rows, columns}};
  if (product) filters = {{std::move(row), 1, columns}, {std::move(column), rows, 1}};
  Tensor out = plain_images;
  for (const Filter& f : filters) out = filter_once(out, f);
  detail::record(out, {&wide, 1}, [filters](const Tensor& g) {
    Tensor back = g;
    for (auto f = filters.rbegin(); f != filters.rend(); ++f) back = spread_once(back, *f);
    return std::vector{back};
  });
  return out;
}

}  // namespace topograd::ops
