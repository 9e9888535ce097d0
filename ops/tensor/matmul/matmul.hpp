// Products of matrices.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

/// A·B of the last two axes; axes before them are batches and broadcast.
///
///   a  (..., m, k)    b  (..., k, n)    result  (..., m, n)
///
/// Transposed views are read in place. f16 is read as f32; sums are f32 (f64 for f64). Devices sum
/// in the order of k, the CPU as Eigen does: |error| <= k ε Σ|a||b|.
///
/// Throws Error{Shape} "matmul: expected lhs columns == rhs rows, got (3, 4) and (3, 1)".
/// Cost: m n k multiply-adds per batch.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace topograd::ops
