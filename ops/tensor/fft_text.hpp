// Internal: kernels of Fourier transforms.
#pragma once

#include <topograd/ops/kernel_text.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::ops::detail {

// Complex numbers are vec2 (dvec2). Where a word `swapped` is 1, real and imaginary parts change
// places on the way in and on the way out, which makes the transform the inverse one but for its
// factor.

/// One of Stockham's passes: transforms of `radix` numbers that lie apart, in shared memory.
struct FftPass {
  std::uint32_t radix = 8;  ///< a power of two, >= 8
  std::uint32_t jobs = 1;   ///< transforms of a workgroup, a power of two
  bool wide = false;        ///< f64
  /// Neighbouring jobs, not the numbers of one, are neighbours in memory: of source, of target.
  bool near_load = false, near_store = false;

  std::uint32_t invocations() const { return radix * jobs / 8; }
  /// Numbers of a transform in shared memory, with what keeps its neighbours in different banks.
  std::uint32_t line() const { return radix + radix / 8 + 1; }
  std::uint32_t shared_bytes() const { return jobs * line() * (wide ? 16u : 8u); }
  std::string key() const;
};

/// Arguments source, target, roots; words: jobs in all, and the binary logarithms of the length of
/// a row, of length / radix, and of the span (product of the radices before); swapped, factor (two
/// words). Workgroups: jobs / FftPass::jobs, in x and y.
///
/// roots: e^(-2πi k/radix) for k < radix; then e^(-2πi k/m) for k < 1024 and e^(-2πi 1024 k/m) for
/// k < max(1, m/1024), m = span * radix.
/// Source: Govindaraju et al., High performance discrete Fourier transforms on graphics processors,
/// SC 2008.
KernelText fft_pass_kernel(const FftPass& pass);

/// target[row][k] = source[row][k] * table[k] * factor for k < valid, else 0, k < length: the steps
/// of Bluestein's algorithm. Words: count, length, source_length, valid, swap_in, swap_out, factor
/// (two words).
KernelText chirp_kernel(bool wide);

/// The sum as it is written, for short lengths. Arguments source, target, roots (e^(-2πi
/// k/length)); words: count, length, swapped, factor (two words).
KernelText short_dft_kernel(bool wide);

}  // namespace topograd::ops::detail
