// Shapes and strides of tensors: broadcasting, views, and loops over several views.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Sizes of a tensor's axes, outermost first; empty for a single number.
using Shape = std::vector<std::int64_t>;

/// Distance in elements between entries of an axis; 0 if the axis repeats one entry.
using Strides = std::vector<std::int64_t>;

/// "(3, 4)", "()".
std::string to_text(const Shape& shape);

/// Product of the sizes; 1 for a single number.
std::int64_t element_count(const Shape& shape);

/// Strides of contiguous elements, the last axis fastest.
Strides contiguous_strides(const Shape& shape);

/// True if the elements are contiguous in row-major order. Axes of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);

/// Throws Error{InvalidArgument} "call: expected sizes >= 0, got (2, -3)", and for shapes of more
/// than 2^32 - 1 elements.
void check_shape(const char* call, const Shape& shape);

/// The axis counted from the front; -1 is the last one. Throws Error{InvalidArgument}.
std::size_t checked_axis(const char* call, const Shape& shape, std::int64_t axis);

/// The shape to which both broadcast: axes aligned at the end, size 1 repeated as needed.
///
/// Throws Error{Shape} "call: expected shapes that broadcast, got (3, 4) and (3)".
Shape broadcast(const char* call, const Shape& a, const Shape& b);

/// Strides for reading a view of shape `from` as `to`. Throws Error{Shape}.
Strides broadcast_strides(const char* call, const Shape& from, const Strides& strides,
                          const Shape& to);

/// Strides of the same elements in shape `to`, without a copy; empty if that is impossible.
std::optional<Strides> reshaped_strides(const Shape& from, const Strides& strides, const Shape& to);

/// A loop over the elements of several views of one shape, with the fewest possible axes.
///
/// Axes with uniform strides in all views are joined; axes of size 1 are removed. `strides[k]`
/// belongs to view k.
struct LoopNest {
  Shape shape;
  std::vector<Strides> strides;

  /// True if view k is read at element i of the loop.
  bool is_linear(std::size_t k) const;
  /// True if view k is a single number.
  bool is_scalar(std::size_t k) const;
};

LoopNest loop_nest(const Shape& shape, std::span<const Strides> strides);

}  // namespace topograd::ops
