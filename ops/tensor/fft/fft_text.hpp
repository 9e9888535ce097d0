// Internal: kernels of Fourier transforms.
#pragma once

#include "../../backend/kernel_text.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::ops::detail {

// Complex numbers are vec2 (dvec2). Where a word `swapped` is 1, real and imaginary parts change
// places on the way in and on the way out, which makes the transform the inverse one but for its
// factor.

/// One of Stockham's passes: transforms of `radix` numbers that lie apart, in shared memory.
struct FftPass {
  std::uint32_t radix = 8;  ///< a product of 2, 3, 5 and 7
  std::uint32_t jobs = 1;   ///< transforms of a workgroup
  bool wide = false;        ///< f64
  /// Neighbouring jobs, not the numbers of one, are neighbours in memory: of source, of target.
  bool near_load = false, near_store = false;
  /// Real and imaginary parts take turns in shared memory, which then holds twice as many numbers.
  bool halves = false;
  /// The source is of 2 radix real numbers a row; the target takes the first radix + 1 complex ones
  /// of their transform. Of single passes, whose roots are then of m = 2 radix.
  bool real = false;
  std::uint32_t widest = 16;  ///< numbers of an invocation, at most: 16 or 32
  /// Of long transforms: of a row, and the product of the radices before, as constants. 0: words.
  std::uint64_t length = 0, span = 0;

  /// Sizes of the butterflies, one after the other.
  std::vector<std::uint32_t> stages() const;
  std::uint32_t lanes() const;  ///< invocations of a transform
  std::uint32_t invocations() const { return lanes() * jobs; }
  /// Numbers of a transform in shared memory, with what keeps its neighbours in different banks.
  /// Neighbouring lines begin so many banks apart that what lanes and jobs reach at a time differs:
  /// two (twice an odd number), or by the number of jobs.
  std::uint32_t line() const;
  std::uint32_t pad_shift() const;  ///< a place is left after so many numbers, as a power of two
  std::uint32_t shared_bytes() const {
    return jobs * line() * (wide ? 16u : 8u) / (halves ? 2 : 1);
  }
  std::string key() const;
};

/// Arguments source, target, roots; words: jobs in all; without FftPass::length the length of a
/// row, stride (length / radix), span (product of the radices before); swapped, factor (two words).
/// Workgroups: jobs / FftPass::jobs, in x and y.
///
/// roots: e^(-2πi k/radix) for k < radix; then e^(-2πi k/m) for k < 1024 and e^(-2πi 1024 k/m) for
/// k <= m/1024, m = span * radix.
/// Source: Govindaraju et al., High performance discrete Fourier transforms on graphics processors,
/// SC 2008.
KernelText fft_pass_kernel(const FftPass& pass);

/// From rows of transforms of h numbers to rows of h + 1 of the transform of 2 h real ones, which
/// were pairs: X_k = E_k + e^(-πi k/h) O_k, E and O being the transforms of every second number.
/// Arguments source, target, roots (as of passes, radix 8, m = 2 h); words: count (of pairs k, h -
/// k), length (h).
/// Source: Press et al., Numerical Recipes, 3rd ed., 12.3.2.
KernelText unpack_kernel(bool wide);

/// target[row][k] = source[row][k] * table[k] * factor for k < valid, else 0, k < length: the steps
/// of Bluestein's algorithm. Words: count, length, source_length, valid, swap_in, swap_out, factor
/// (two words).
KernelText chirp_kernel(bool wide);

/// The sum as it is written, for short lengths. Arguments source, target, roots (e^(-2πi
/// k/length)); words: count, length, swapped, factor (two words).
KernelText short_dft_kernel(bool wide);

}  // namespace topograd::ops::detail
