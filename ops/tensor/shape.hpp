// Shapes and strides of tensors: broadcasting, views, and loops over several views at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Sizes of the axes of a tensor, outermost first; empty for a single number.
using Shape = std::vector<std::int64_t>;

/// Elements from one entry of an axis to the next; 0 where an axis repeats one entry.
using Strides = std::vector<std::int64_t>;

/// "(3, 4)", "()".
std::string to_text(const Shape& shape);

/// Product of the sizes; 1 for a single number.
std::int64_t element_count(const Shape& shape);

/// Strides of elements that lie one after the other, the last axis fastest.
Strides contiguous_strides(const Shape& shape);

/// Whether the elements lie one after the other in row-major order. Axes of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);

/// Throws Error{InvalidArgument} "call: expected sizes >= 0, got (2, -3)", and for shapes of more
/// than 2^32 - 1 elements.
void check_shape(const char* call, const Shape& shape);

/// The axis counted from the front; -1 is the last one. Throws Error{InvalidArgument}.
std::size_t checked_axis(const char* call, const Shape& shape, std::int64_t axis);

/// The shape in which both can be read, axes aligned at the end, size 1 repeated as needed.
///
/// Throws Error{Shape} "call: expected shapes that broadcast, got (3, 4) and (3)".
Shape broadcast(const char* call, const Shape& a, const Shape& b);

/// Strides with which a view of shape `from` is read as `to`. Throws Error{Shape}.
Strides broadcast_strides(const char* call, const Shape& from, const Strides& strides,
                          const Shape& to);

/// Strides of the same elements as `to`, without a copy; nothing if that is not possible.
std::optional<Strides> reshaped_strides(const Shape& from, const Strides& strides, const Shape& to);

/// A loop over the elements of several views of one shape, with as few axes as possible.
///
/// Axes that all views step through evenly are one; axes of size 1 are gone. `strides[k]` belongs
/// to view k.
struct LoopNest {
  Shape shape;
  std::vector<Strides> strides;

  /// View k is read as element i of the loop.
  bool is_linear(std::size_t k) const;
  /// View k is one number.
  bool is_scalar(std::size_t k) const;
};

LoopNest loop_nest(const Shape& shape, std::span<const Strides> strides);

}  // namespace topograd::ops
