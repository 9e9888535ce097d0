// Sums, means and extremes of tensors along axes.
#pragma once

#include "tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops {

/// Axes of a reduction, counted from the front or (negative) from the back; empty means all.
using Axes = std::vector<std::int64_t>;

// With `keep`, reduced axes remain with size 1. Expressions of the operand are fused. Sums of f32
// use f32 on devices (pieces are combined pairwise: error about 1e-6 of the sum of magnitudes) and
// f64 on the CPU. NaN takes precedence in extremes. Throw Error{InvalidArgument} for an axis that
// does not exist or is repeated; max and min also for axes without entries.

Tensor sum(const Tensor& a, const Axes& axes = {}, bool keep = false);
Tensor mean(const Tensor& a, const Axes& axes = {}, bool keep = false);
/// Derivatives go to the extreme entries, in equal parts on ties.
Tensor max(const Tensor& a, const Axes& axes = {}, bool keep = false);
Tensor min(const Tensor& a, const Axes& axes = {}, bool keep = false);
/// Mean of the squared deviations from the mean.
Tensor variance(const Tensor& a, const Axes& axes = {}, bool keep = false);

/// Index of the largest (smallest) entry along an axis, the first on ties, as a number of the
/// tensor's type. NaN counts as the extreme. No derivative. Throws Error{InvalidArgument} for an
/// axis with more than 2^24 entries of f32 or f16, whose indices f32 cannot represent;
/// to(Type::f64) and argmax() of array_of<float>(a) can.
Tensor argmax(const Tensor& a, std::int64_t axis = -1);
Tensor argmin(const Tensor& a, std::int64_t axis = -1);

}  // namespace topograd::ops
