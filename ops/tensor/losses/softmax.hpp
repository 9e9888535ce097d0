// Softmax and layer normalisation of rows.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

// Each is one kernel, with one workgroup per row (an invocation for short rows). A row with NaN is
// NaN. f16 is read as f32. Throw Error{InvalidArgument} for an axis that does not exist.

/// exp(a - max a) / Σ exp(a - max a) along an axis.
Tensor softmax(const Tensor& a, std::int64_t axis = -1);
/// The logarithm of softmax(), without its loss of accuracy.
Tensor log_softmax(const Tensor& a, std::int64_t axis = -1);

/// (a - mean a) / √(variance a + epsilon) along the last axis.
Tensor layer_norm(const Tensor& a, double epsilon = 1e-5);
/// The same times `scale` plus `shift`, which must have the size of the last axis, or Error{Shape}.
Tensor layer_norm(const Tensor& a, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);

}  // namespace topograd::ops
