// Discrete Fourier transforms of any length, in one and two dimensions.
#pragma once

#include "../tensor.hpp"

namespace topograd::ops {

// Complex numbers are a last axis of two: real and imaginary part. Transforms are along the axis
// before it (in two dimensions: the two axes before it); other axes are batches. Lengths that are
// products of 2, 3, 5 and 7 use Stockham's passes, others use Bluestein's convolution; the CPU uses
// FFTW. The error is about ε log2(n) of the root mean square of the result. Differentiable.
//
// Throw Error{Shape} "fft: expected complex numbers (..., n, 2), got (3, 4)", and for an empty
// transformed axis; batches may be empty.

/// Y_k = Σ_j z_j e^(-2πi jk/n).
Tensor fft(const Tensor& z);
/// The inverse: z_j = 1/n Σ_k Y_k e^(2πi jk/n).
Tensor ifft(const Tensor& y);
Tensor fft2(const Tensor& z);
Tensor ifft2(const Tensor& y);

/// For real numbers (..., n): the first n/2 + 1 of n complex numbers, which determine the others.
Tensor rfft(const Tensor& x);
/// The inverse: n >= 1 real numbers. Throws Error{Shape} unless y has n/2 + 1 complex numbers.
Tensor irfft(const Tensor& y, std::int64_t n);
/// For (..., m, n) real numbers: (..., m, n/2 + 1) complex numbers.
Tensor rfft2(const Tensor& x);
Tensor irfft2(const Tensor& y, std::int64_t n);

}  // namespace topograd::ops
