// Sums, means and extremes of tensors along axes.
#pragma once

#include "tensor.hpp"

#include <cstdint>
#include <vector>

namespace topograd::ops {

/// Axes of a reduction, counted from the front or (negative) from the back; none means all.
using Axes = std::vector<std::int64_t>;

// With `keep`, reduced axes stay with size 1. What computes the tensor is fused. Sums of f32 are of
// f32 on devices (in pieces that are combined by halves: an error of about 1e-6 of the sum of
// magnitudes) and of f64 on the CPU. NaN wins in extremes. Throw Error{InvalidArgument} for an axis
// that is not there or given twice; max and min for axes without entries.

Tensor sum(const Tensor& a, const Axes& axes = {}, bool keep = false);
Tensor mean(const Tensor& a, const Axes& axes = {}, bool keep = false);
/// Derivatives go to the extreme entries, in equal parts where several are.
Tensor max(const Tensor& a, const Axes& axes = {}, bool keep = false);
Tensor min(const Tensor& a, const Axes& axes = {}, bool keep = false);
/// Mean of the squared deviations from the mean.
Tensor variance(const Tensor& a, const Axes& axes = {}, bool keep = false);

/// Place of the largest (smallest) entry along an axis, the first of equal ones, as a number of the
/// tensor's type. NaN counts as the extreme. No derivative. Throws Error{InvalidArgument} for an
/// axis of more than 2^24 entries of f32 or f16, whose places f32 does not hold; to(Type::f64)
/// does, and so does argmax() of array_of<float>(a).
Tensor argmax(const Tensor& a, std::int64_t axis = -1);
Tensor argmin(const Tensor& a, std::int64_t axis = -1);

}  // namespace topograd::ops
