// Hessians of the instances of a term.
#pragma once

#include "../recording/recorder.hpp"
#include "device_terms.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime::vulkan {

/// At the point of the vectors.
class TermHessians {
 public:
  /// All of these outlive it.
  TermHessians(Context& context, Recorder& recorder, const DeviceModel& problem,
               const StepVectors& v, const DeviceTerms& terms)
      : context_(context), recorder_(recorder), problem_(problem), v_(v), terms_(terms) {}

  /// As SecondDerivatives::hessian().
  void read(std::size_t term, bool project, std::span<double> values);
  /// Begins to make the kernel for `project`.
  void load_projection();

 private:
  void record_projection(CommandList& list, std::uint32_t width, std::uint32_t count,
                         const Buffer& blocks);

  Context& context_;
  Recorder& recorder_;
  const DeviceModel& problem_;
  const StepVectors& v_;
  const DeviceTerms& terms_;
  LoadedKernel projection_;
  Buffer rotated_, eigenvectors_;
};

}  // namespace topograd::runtime::vulkan
