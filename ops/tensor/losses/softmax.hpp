// Softmax and layer normalisation: rows that are scaled by their own sums.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

// One kernel each, a workgroup (of short rows an invocation) a row. A row with NaN is NaN. f16 is
// read as f32. Throw Error{InvalidArgument} for an axis that is not there.

/// exp(a - max a) / Σ exp(a - max a) along an axis.
Tensor softmax(const Tensor& a, std::int64_t axis = -1);
/// Its logarithm, without the loss of taking it afterwards.
Tensor log_softmax(const Tensor& a, std::int64_t axis = -1);

/// (a - mean a) / √(variance a + epsilon) along the last axis.
Tensor layer_norm(const Tensor& a, double epsilon = 1e-5);
/// The same times `scale` plus `shift`, which have the size of the last axis: Error{Shape}.
Tensor layer_norm(const Tensor& a, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);

}  // namespace topograd::ops
