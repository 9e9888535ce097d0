// Hessians of the instances of a term.
#pragma once

#include "part.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime::vulkan {

/// Evaluates at the point of the vectors.
class TermHessians : Part {
 public:
  explicit TermHessians(const Part& part) : Part(part) {}

  /// As SecondDerivatives::hessian().
  void read(std::size_t term, bool project, std::span<double> values);
  /// Takes the negative part from `count` blocks of `width` unknowns.
  void record_projection(CommandList& list, std::uint32_t width, std::uint32_t count,
                         const Buffer& blocks);

 private:
  LoadedKernel projection_;
  Buffer rotated_, eigenvectors_;
};

}  // namespace topograd::runtime::vulkan
