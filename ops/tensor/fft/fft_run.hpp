// Internal: Fourier transforms of rows on the CPU and on devices.
#pragma once

#include "../state.hpp"

#include <complex>
#include <memory>
#include <vector>

namespace topograd::ops::detail {

/// Transforms of `rows` contiguous rows of `length` complex numbers.
struct FftRows {
  View source, target;
  Type type = Type::f32;
  std::uint64_t rows = 0, length = 0;
  bool inverse = false;
  double factor = 1;  ///< multiplies the result
};

void fft_on_cpu(const FftRows& fft);
void fft_on_device(OpBackend& backend, const FftRows& fft);

/// Transforms rows of 2 `length` real numbers to length + 1 complex ones, forward and unscaled.
void rfft_on_cpu(const FftRows& fft);
void rfft_on_device(OpBackend& backend, const FftRows& fft);

/// The forward transform in double, on the CPU.
std::vector<std::complex<double>> fft_of(const std::vector<std::complex<double>>& numbers);

}  // namespace topograd::ops::detail
