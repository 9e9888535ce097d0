// Conversions between arrays and tensors without a copy.
#pragma once

#include <type_traits>

#include "../array/array.hpp"
#include "tensor.hpp"

namespace topograd::ops {

namespace detail {
Tensor tensor_of(const Slice& slice, Shape shape);
Slice slice_of(const Tensor& tensor, Type type);
}  // namespace detail

/// A tensor that shares the array's numbers: later writes to the array are visible. Throws
/// Error{Shape} "tensor: expected 6 numbers for (2, 3), got 5".
template <class T>
requires std::is_floating_point_v<T> Tensor tensor(const Array<T>& array, const Shape& shape) {
  return detail::tensor_of(array.untyped(), shape);
}

/// The tensor's numbers, row-major, on their device; shared if they are contiguous. Read-only: a
/// tensor's numbers do not change. Throws Error{InvalidArgument} "array_of: expected a tensor of
/// f64, got f32".
template <class T>
requires std::is_floating_point_v<T> Array<T> array_of(const Tensor& tensor) {
  return Array<T>(detail::slice_of(tensor, type_of<T>()));
}

}  // namespace topograd::ops
