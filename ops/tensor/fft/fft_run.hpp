// Internal: what a Fourier transform of rows is run with, on the CPU and on devices.
#pragma once

#include "../state.hpp"

#include <complex>
#include <memory>
#include <vector>

namespace topograd::ops::detail {

/// Transforms of `rows` rows of `length` complex numbers that lie one after the other.
struct FftRows {
  View source, target;
  Type type = Type::f32;
  std::uint64_t rows = 0, length = 0;
  bool inverse = false;
  double factor = 1;  ///< times the result
};

void fft_on_cpu(const FftRows& fft);
void fft_on_device(Backend& backend, const FftRows& fft);

/// Of rows of 2 `length` real numbers: rows of length + 1 complex ones. Forward, without a factor.
void rfft_on_cpu(const FftRows& fft);
void rfft_on_device(Backend& backend, const FftRows& fft);

/// The forward transform in double, by FFTW.
std::vector<std::complex<double>> fft_of(std::vector<std::complex<double>> numbers);

}  // namespace topograd::ops::detail
