// Concatenation and splitting of tensors, and access by index.
#pragma once

#include "../../array/gather.hpp"
#include "../tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops {

// Numbers are copied bit for bit; f16 stays f16 if all tensors are f16. Differentiable.

/// Concatenates tensors along an axis; their other sizes must be equal.
///
/// Throws Error{Shape} "concat: expected shapes that agree but for axis 1, got (3, 4) and (2, 4)",
/// Error{InvalidArgument} if there are no tensors, and for different types or devices.
Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// Concatenates tensors of one shape along a new axis, which is `axis` of the result.
///
/// Throws Error{Shape} "stack: expected tensors of one shape, got (3, 4) and (3, 1)".
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// Splits a tensor into consecutive parts of these sizes along an axis; the parts are views.
///
/// Throws Error{Shape} "split: expected sizes >= 0 that sum to 4, got (1, 2)".
std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis = 0);

/// Entries of an axis by index: the axis is replaced by those of `indices`.
///
///   a  (..., n, ...)    indices  of any shape: integers from 0 to n - 1
///   result  (..., indices.shape()..., ...)
///
/// Without a check, fractions are truncated, and an index out of range (NaN, negative) gives 0.
/// Derivatives are added to the entries, on devices in no fixed order (scatter()). Indices have no
/// derivatives.
///
/// Throws Error{InvalidArgument} if the axis has more entries than the indices' type can count
/// (2^24 for f32, 2^11 for f16); with IndexCheck::throws "take: index 3 is 7, expected a whole
/// number in [0, 5)". backward() throws Error{Unsupported} for f64 on a device without float64 and
/// int64 atomics.
Tensor take(const Tensor& a, const Tensor& indices, std::int64_t axis = 0,
            IndexCheck check = IndexCheck::none);

/// Rows of a table by index, as in take().
///
///   table  (n, d)    indices  (...)    result  (..., d)
///
/// Throws Error{Shape} "embedding: expected a table (n, d), got (5)".
Tensor embedding(const Tensor& table, const Tensor& indices, IndexCheck check = IndexCheck::none);

}  // namespace topograd::ops
