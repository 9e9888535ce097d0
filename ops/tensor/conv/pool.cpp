// Pooling: reductions over views of images as windows, which may overlap.
#include "../../../ir/error.hpp"
#include "../operations.hpp"
#include "../state.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace topograd::ops {
namespace {

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

Tensor max_pool2d(const Tensor& images, std::int64_t size, PoolOptions options) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  return max(windows("max_pool2d", images, size, options, kLeast), {-3, -1});
}
Tensor avg_pool2d(const Tensor& images, std::int64_t size, PoolOptions options) {
  return mean(windows("avg_pool2d", images, size, options, 0), {-3, -1});
}

}  // namespace topograd::ops
