// Convolutions of images, filters, and pooling over windows, which may overlap.
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../operations.hpp"
#include "../state.hpp"

namespace topograd::ops {
namespace {

using detail::argument;
using detail::extent;
using detail::host_read;
using detail::host_write;
using detail::run_op;
using detail::View;

/// out[n, o, y, x] = Σ_{c, i, j} in[n, c, t(y, i), t(x, j)] w[o, c, i, j]; out is contiguous.
///
/// t(y, i) = (y stride + i dilation - padding) / spacing if that is an integer inside the image;
/// otherwise the term is 0, or with `clamped` that of the nearest pixel.
struct Convolution {
  View in, weights, out;
  Type type = Type::f32;
  std::int64_t images = 0, channels = 0, outputs = 0;
  std::array<std::int64_t, 2> size = {}, kernel = {}, out_size = {}, padding = {};
  std::int64_t stride = 1, dilation = 1, spacing = 1;
  bool flipped = false;  ///< reads weights from the last to the first
  bool clamped = false;
  // Elements between images and between channels of `in`, and between outputs and between channels
  // of `weights`; rows are contiguous.
  std::int64_t image_step = 0, channel_step = 0, output_step = 0, weight_step = 0;

  std::int64_t count() const { return images * outputs * out_size[0] * out_size[1]; }
};

/// Position that a term reads along one axis; -1: none.
std::int64_t input_index(const Convolution& c, std::size_t axis, std::int64_t y, std::int64_t i) {
  const std::int64_t t = y * c.stride + i * c.dilation - c.padding[axis];
  if (c.clamped) return std::clamp<std::int64_t>(t, 0, c.size[axis] - 1);
  if (t < 0 || t % c.spacing != 0 || t / c.spacing >= c.size[axis]) return -1;
  return t / c.spacing;
}

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Weights as a matrix: outputs by (channel, row, column).
template <class T>
Matrix<T> weight_matrix(const Convolution& c) {
  const T* w = host_read<T>(c.weights);
  const std::int64_t area = c.kernel[0] * c.kernel[1];
  Matrix<T> out(c.outputs, c.channels * area);
  for (std::int64_t o = 0; o < c.outputs; ++o) {
    for (std::int64_t k = 0; k < c.channels * area; ++k) {
      const std::int64_t channel = k / area, tap = c.flipped ? area - 1 - k % area : k % area;
      out(o, k) = w[o * c.output_step + channel * c.weight_step + tap];
    }
  }
  return out;
}

/// The windows of some rows of one image as a matrix: (channel, row, column) by pixel.
template <class T>
void read_windows(const Convolution& c, const T* image, std::int64_t begin, std::int64_t end,
                  Matrix<T>& out) {
  out.resize(c.channels * c.kernel[0] * c.kernel[1], (end - begin) * c.out_size[1]);
  std::int64_t k = 0;
  for (std::int64_t channel = 0; channel < c.channels; ++channel) {
    const T* plane = image + channel * c.channel_step;
    for (std::int64_t i = 0; i < c.kernel[0]; ++i) {
      for (std::int64_t j = 0; j < c.kernel[1]; ++j, ++k) {
        T* to = out.data() + k * out.cols();
        for (std::int64_t y = begin; y < end; ++y) {
          const std::int64_t row = input_index(c, 0, y, i);
          for (std::int64_t x = 0; x < c.out_size[1]; ++x) {
            const std::int64_t column = input_index(c, 1, x, j);
            *to++ = row < 0 || column < 0 ? T{0} : plane[row * c.size[1] + column];
          }
        }
      }
    }
  }
}

template <class T>
void convolve_typed(const Convolution& c) {
  const Matrix<T> weights = weight_matrix<T>(c);
  const T* in = host_read<T>(c.in);
  T* out = host_write<T>(c.out);
  const std::int64_t pixels = c.out_size[0] * c.out_size[1];
  // Number of image rows whose windows have some hundred thousand numbers.
  const std::int64_t depth = std::max<std::int64_t>(1, weights.cols());
  const std::int64_t block =
      std::clamp<std::int64_t>((1 << 18) / (depth * std::max<std::int64_t>(c.out_size[1], 1)), 1,
                               std::max<std::int64_t>(c.out_size[0], 1));
  const std::int64_t blocks = (c.out_size[0] + block - 1) / block;
  runtime::cpu::Pool pool(0);
  pool.for_ranges(static_cast<std::size_t>(c.images * blocks), 1, [&](std::size_t k, std::size_t) {
    const std::int64_t image = static_cast<std::int64_t>(k) / blocks;
    const std::int64_t begin = static_cast<std::int64_t>(k) % blocks * block;
    const std::int64_t end = std::min(c.out_size[0], begin + block);
    Matrix<T> windows;
    read_windows(c, in + image * c.image_step, begin, end, windows);
    Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>> to(
        out + image * c.outputs * pixels + begin * c.out_size[1], c.outputs,
        (end - begin) * c.out_size[1], Eigen::OuterStride<>(pixels));
    to.noalias() = weights * windows;
  });
}

void convolve_on_device(OpBackend& backend, const Convolution& c) {
  const ComputeKernel& kernel = kernel_for(KernelFile::convolve, c.type);
  const auto count = static_cast<std::uint64_t>(c.count());
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t groups = std::min((count + 255) / 256, most);
  const std::int64_t taps = c.kernel[0] * c.kernel[1];
  const auto rounds = static_cast<std::int64_t>((count + 256 * groups - 1) / (256 * groups));
  if (rounds * (taps * (c.channels + 1) + c.kernel[0] + 1) > backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "conv2d: expected fewer terms a sum for the loops of this device, got " +
                    std::to_string(taps * c.channels));
  }
  const Argument arguments[] = {
      argument(
          backend, c.in,
          extent({c.images, c.channels, c.size[0] * c.size[1]}, {c.image_step, c.channel_step, 1}),
          c.type, Access::read),
      argument(backend, c.weights,
               extent({c.outputs, c.channels, taps}, {c.output_step, c.weight_step, 1}), c.type,
               Access::read),
      argument(backend, c.out, count, c.type, Access::write)};
  const std::uint32_t words[] = {
      word(c.count()),     word(c.channels),     word(c.outputs),     word(c.size[0]),
      word(c.size[1]),     word(c.kernel[0]),    word(c.kernel[1]),   word(c.out_size[0]),
      word(c.out_size[1]), word(c.padding[0]),   word(c.padding[1]),  word(c.stride),
      word(c.dilation),    word(c.spacing),      c.flipped,           c.clamped,
      word(c.image_step),  word(c.channel_step), word(c.output_step), word(c.weight_step)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = {static_cast<std::uint32_t>(groups)}});
}

Work convolution_work(const Convolution& c) {
  const std::uint64_t number = size_of(c.type);
  const auto count = static_cast<std::uint64_t>(c.count());
  const auto terms = static_cast<std::uint64_t>(c.channels * c.kernel[0] * c.kernel[1]);
  const auto image = static_cast<std::uint64_t>(c.images * c.channels * c.size[0] * c.size[1]);
  return {.operations = 2 * count * terms,
          .bytes_read = (image + static_cast<std::uint64_t>(c.outputs) * terms) * number,
          .bytes_written = count * number,
          .reads = static_cast<double>(2 * count * terms * number),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(terms))};
}

void convolve_on_cpu(const Convolution& c) {
  c.type == Type::f64 ? convolve_typed<double>(c) : convolve_typed<float>(c);
}

void convolve(const Convolution& c, const std::optional<Device>& device) {
  run_op({.op = Operation::Filter,
          .kernel = key_of("convolve", c.channels * c.kernel[0] * c.kernel[1], c.type),
          .size = static_cast<std::uint64_t>(c.count()),
          .work = convolution_work(c),
          .inputs = {c.in.storage, c.weights.storage},
          .outputs = {c.out.storage},
          .on_cpu = [&] { convolve_on_cpu(c); },
          .on_device = [&](OpBackend& backend) { convolve_on_device(backend, c); },
          .needs_float64 = c.type == Type::f64},
         device);
}

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
  convolve(c, device);
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

/// Images with `padding` pixels of `fill` around them.
Tensor padded(const Tensor& images, std::int64_t padding, double fill) {
  if (padding == 0) return images;
  const Tensor plain = images.detach();
  const auto wider = [&](const Tensor& from) {
    Shape shape = from.shape();
    Tensor out = from;
    for (const std::size_t axis : {shape.size() - 2, shape.size() - 1}) {
      shape[axis] += 2 * padding;
      out = detail::place_slice(out, shape, axis, padding, 1);
    }
    return out;
  };
  Tensor out = wider(plain);
  if (fill != 0) {
    Tensor inside = ones(plain.shape(), plain.type());
    if (const auto device = plain.placed()) inside = inside.to(*device);
    out = map([](const Value& x, const Value& there,
                 const Value& beyond) { return select(there != literal(0), x, beyond); },
              out, wider(inside), Tensor(fill));
  }
  detail::record(out, {&images, 1}, [padding](const Tensor& g) {
    Tensor inner = g;
    for (const std::int64_t axis : {-2, -1})
      inner = inner.slice(axis, padding, inner.size(axis) - padding);
    return std::vector{inner};
  });
  return out;
}

/// A view (..., rows, size, columns, size) of windows that begin `stride` apart.
Tensor windows(const char* call, const Tensor& from, std::int64_t size, PoolOptions o,
               double fill) {
  detail::state_of(call, from);
  if (o.stride == 0) o.stride = size;
  if (size < 1 || o.stride < 1 || o.padding < 0 || o.padding > size / 2) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) +
                    ": expected size >= 1, stride >= 0 and 0 <= padding <= size / 2, got " +
                    std::to_string(size) + ", " + std::to_string(o.stride) + " and " +
                    std::to_string(o.padding));
  }
  if (from.rank() < 2 || size > from.size(-2) + 2 * o.padding ||
      size > from.size(-1) + 2 * o.padding) {
    throw Error(ErrorCode::Shape, std::string(call) + ": expected images (..., height, width) of " +
                                      std::to_string(size) + " pixels at least, got " +
                                      to_text(from.shape()));
  }
  // Longer strides give the same single window.
  o.stride = std::min(o.stride, std::max(from.size(-2), from.size(-1)) + 2 * o.padding);
  const Tensor images =
      padded(from.type() == Type::f16 ? from.to(Type::f32) : from, o.padding, fill);
  const detail::View& data = detail::data_of(images);
  const std::size_t row = images.rank() - 2, column = images.rank() - 1;
  Shape shape(images.shape().begin(), images.shape().end() - 2);
  Strides strides(data.strides.begin(), data.strides.end() - 2);
  for (const std::size_t axis : {row, column}) {
    shape.insert(shape.end(), {(images.shape()[axis] - size) / o.stride + 1, size});
    strides.insert(strides.end(), {o.stride * data.strides[axis], data.strides[axis]});
  }
  Tensor out = detail::make_view(images, shape, {data.storage, data.offset, strides});
  detail::record(out, {&images, 1}, [of = images.shape(), size, o](const Tensor& g) {
    const std::size_t row_axis = of.size() - 2, column_axis = of.size() - 1;
    // Adds one position of all windows at a time: these never coincide.
    Tensor total = zeros(of, g.type());
    if (const auto device = g.placed()) total = total.to(*device);
    Shape flat = of;
    flat[row_axis] = g.size(-4), flat[column_axis] = g.size(-2);
    Shape tall = flat;
    tall[row_axis] = of[row_axis];
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        const Tensor one = g.slice(-3, i, i + 1).slice(-1, j, j + 1).reshape(flat);
        const Tensor placed = detail::place_slice(
            detail::place_slice(one, tall, row_axis, i, o.stride), of, column_axis, j, o.stride);
        total = total + placed;
      }
    }
    return std::vector{total};
  });
  return out;
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

Tensor max_pool2d(const Tensor& images, std::int64_t size, PoolOptions options) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  return max(windows("max_pool2d", images, size, options, kLeast), {-3, -1});
}
Tensor avg_pool2d(const Tensor& images, std::int64_t size, PoolOptions options) {
  return mean(windows("avg_pool2d", images, size, options, 0), {-3, -1});
}

}  // namespace topograd::ops
