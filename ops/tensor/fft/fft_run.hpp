// Internal: Fourier transforms of rows on the CPU and on devices, and of one row by a library.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "../state.hpp"

namespace topograd::ops::detail {

/// Transforms of one row on the CPU, by KissFFT or, with TOPOGRAD_FFTW, by FFTW.
enum class RowKind : std::uint8_t {
  forward,  ///< `length` complex numbers to as many
  inverse,  ///< the same with the other sign; unscaled
  real      ///< forward, 2 `length` real numbers to length + 1 complex ones
};

/// Transforms rows of one length, one row at a time. Tables are made once and kept for the process,
/// so that further objects of the same length cost little.
template <class T>
class RowTransform {
 public:
  RowTransform(std::uint64_t length, RowKind kind);
  ~RowTransform();
  RowTransform(const RowTransform&) = delete;
  RowTransform& operator=(const RowTransform&) = delete;

  /// The rows must not overlap; complex numbers are pairs.
  void run(const T* in, T* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

extern template class RowTransform<float>;
extern template class RowTransform<double>;

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
