// Internal: kernels of Fourier transforms.
#pragma once

#include "../../backend/compute_kernel.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::ops::detail {

// Complex numbers are vec2 (dvec2). If a word `swapped` is 1, real and imaginary parts are swapped
// on input and output, which gives the inverse transform except for its factor.

/// One of Stockham's passes: transforms of `radix` strided numbers, in shared memory.
struct FftPass {
  std::uint32_t radix = 8;  ///< a product of 2, 3, 5 and 7
  std::uint32_t jobs = 1;   ///< transforms per workgroup
  bool wide = false;        ///< f64
  /// True if neighbouring jobs, instead of neighbouring numbers of a job, are adjacent in memory:
  /// in the source, in the target.
  bool near_load = false, near_store = false;
  /// Real and imaginary parts alternate in shared memory, which then holds twice as many numbers.
  bool halves = false;
  /// The source has 2 radix real numbers per row; the target receives the first radix + 1 complex
  /// numbers of their transform. Only for single passes, whose roots then have m = 2 radix.
  bool real = false;
  std::uint32_t widest = 16;  ///< maximum of numbers per invocation: 16 or 32
  /// For long transforms: length of a row, product of the previous radices. 0: they are words.
  std::uint64_t length = 0, span = 0;

  /// Sizes of the butterflies, one after the other.
  std::vector<std::uint32_t> stages() const;
  std::uint32_t lanes() const;  ///< invocations per transform
  std::uint32_t invocations() const { return lanes() * jobs; }
  /// Size of a transform in shared memory, with padding against bank conflicts. Neighbouring lines
  /// begin at such banks that simultaneous accesses of lanes and jobs differ: 2 apart (twice an odd
  /// number), or by the number of jobs.
  std::uint32_t line() const;
  std::uint32_t pad_shift() const;  ///< log2 of the number of numbers between gaps
  std::uint32_t shared_bytes() const {
    return jobs * line() * (wide ? 16u : 8u) / (halves ? 2 : 1);
  }
  std::string key() const;
};

/// Arguments source, target, roots; words: total number of jobs; without FftPass::length the length
/// of a row, stride (length / radix), span (product of the previous radices); swapped, factor (two
/// words). Workgroups: jobs / FftPass::jobs, in x and y.
///
/// roots: e^(-2πi k/radix) for k < radix; then e^(-2πi k/m) for k < 1024 and e^(-2πi 1024 k/m) for
/// k <= m/1024, m = span * radix.
/// Source: Govindaraju et al., High performance discrete Fourier transforms on graphics processors,
/// SC 2008.
ComputeKernel fft_pass_kernel(const FftPass& pass);

}  // namespace topograd::ops::detail
