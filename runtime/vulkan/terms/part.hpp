// References that all parts of an engine share.
#pragma once

#include "../recording/recorder.hpp"
#include "device_terms.hpp"

namespace topograd::runtime::vulkan {

/// Parts inherit it, so that they name it as their own; all of it outlives them.
struct Part {
  Context& context_;
  Recorder& recorder_;
  const DeviceModel& problem_;
  StepVectors& v_;
  DeviceTerms& terms_;
};

}  // namespace topograd::runtime::vulkan
