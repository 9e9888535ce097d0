// Tensors put together, split, and parts of them taken by index.
#pragma once

#include "../../array/gather.hpp"
#include "../tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops {

// Numbers are copied bit for bit: f16 stays f16 where all tensors are that. Derivatives go through.

/// Tensors one behind the other along an axis; their other sizes are equal.
///
/// Throws Error{Shape} "concat: expected shapes that agree but for axis 1, got (3, 4) and (2, 4)",
/// Error{InvalidArgument} for no tensors, and for types and devices that do not fit.
Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// Tensors of one shape along a new axis, which is `axis` of the result.
///
/// Throws Error{Shape} "stack: expected tensors of one shape, got (3, 4) and (3, 1)".
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);

/// Parts of these sizes, one behind the other along an axis; views.
///
/// Throws Error{Shape} "split: expected sizes >= 0 that sum to 4, got (1, 2)".
std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis = 0);

/// Entries of an axis by index: the axis is replaced by those of `indices`.
///
///   a  (..., n, ...)    indices  of any shape: numbers from 0 to n - 1, without a fraction
///   result  (..., indices.shape()..., ...)
///
/// Unchecked, fractions are cut off, and an index out of range (a NaN, a negative one) gives 0.
/// Derivatives go to the entries that were taken, added up where one was taken twice, on devices in
/// no fixed order (scatter()). There are none by the indices.
///
/// Throws Error{InvalidArgument} for an axis of more entries than numbers of the indices' type
/// count (2^24 of f32, 2^11 of f16); with IndexCheck::throws "take: index 3 is 7, expected a whole
/// number in [0, 5)". Throws Error{Unsupported} from backward() for f64 on a device without float64
/// and int64 atomics.
Tensor take(const Tensor& a, const Tensor& indices, std::int64_t axis = 0,
            IndexCheck check = IndexCheck::none);

/// Rows of a table by index, as take() has them.
///
///   table  (n, d)    indices  (...)    result  (..., d)
///
/// Throws Error{Shape} "embedding: expected a table (n, d), got (5)".
Tensor embedding(const Tensor& table, const Tensor& indices, IndexCheck check = IndexCheck::none);

}  // namespace topograd::ops
