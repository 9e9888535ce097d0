// Internal: transforms of one row on the CPU, by KissFFT or, with TOPOGRAD_FFTW, by FFTW.
#pragma once

#include <cstdint>
#include <memory>

namespace topograd::ops::detail {

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

}  // namespace topograd::ops::detail
