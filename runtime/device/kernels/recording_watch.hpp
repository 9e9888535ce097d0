// Test hook: which kernels are declared, and which of them recordings use.
#pragma once

#include "kernel_job.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace topograd::runtime::vulkan {

/// Called by engines as they declare and record, on their thread.
struct RecordingWatch {
  std::function<void(const std::vector<std::shared_ptr<KernelJob>>&)> declared;
  std::function<void(std::string_view list)> recording;
  std::function<void(KernelJob&)> used;
};

/// Null: nobody watches. The watch outlives its use.
void set_recording_watch(const RecordingWatch* watch);
const RecordingWatch* recording_watch();

}  // namespace topograd::runtime::vulkan
