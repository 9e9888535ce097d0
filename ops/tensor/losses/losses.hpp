// Losses: means over all entries, fused with expressions of tensors that broadcast.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

/// Mean of (a - b)².
Tensor mse_loss(const Tensor& a, const Tensor& b);
/// Mean of |a - b|.
Tensor mae_loss(const Tensor& a, const Tensor& b);
/// Mean of e²/2 where |e| <= delta, else delta (|e| - delta/2), with e = a - b; delta > 0.
Tensor huber_loss(const Tensor& a, const Tensor& b, double delta = 1);
/// Mean of c²/6 (1 - (1 - (e/c)²)³) where |e| <= c, else c²/6; c > 0. Source: Beaton & Tukey 1974.
Tensor tukey_loss(const Tensor& a, const Tensor& b, double c = 4.685);
/// Mean of -(y log p + (1 - y) log(1 - p)) with p = sigmoid(logits), computed without forming p.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets);
/// Mean over rows of -Σ target log softmax(logits).
///
///   logits   (n, classes)
///   targets  (n) class indices, or (n, classes) probabilities
///
/// A row with an invalid class index counts as 0. Throws Error{Shape}.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

}  // namespace topograd::ops
