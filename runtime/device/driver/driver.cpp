// Translation of VkResults, the device-loss latch and fault injection.
#include "driver.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// For these calls a result outside the specification means that the driver rejects the module. For
/// others the state of the device is unknown, and it counts as lost.
bool makes_kernels(std::string_view call) {
  return call == "vkCreateShaderModule" || call == "vkCreateComputePipelines";
}

}  // namespace

ErrorCode error_code(vk::Result result) {
  switch (result) {
    case vk::Result::eErrorDeviceLost: return ErrorCode::DeviceLost;
    case vk::Result::eErrorOutOfHostMemory: return ErrorCode::OutOfHostMemory;
    case vk::Result::eErrorOutOfDeviceMemory:
    case vk::Result::eErrorOutOfPoolMemory:
    case vk::Result::eErrorFragmentedPool:
    case vk::Result::eErrorMemoryMapFailed:
    case vk::Result::eErrorTooManyObjects: return ErrorCode::OutOfDeviceMemory;
    case vk::Result::eErrorIncompatibleDriver: return ErrorCode::NoDriver;
    case vk::Result::eTimeout: return ErrorCode::Timeout;
    case vk::Result::eErrorInitializationFailed:
    case vk::Result::eErrorFeatureNotPresent:
    case vk::Result::eErrorExtensionNotPresent:
    case vk::Result::eErrorLayerNotPresent:
    case vk::Result::eErrorInvalidShaderNV: return ErrorCode::Unsupported;
    default: return ErrorCode::Internal;
  }
}

void Driver::check_lost() const {
  if (!lost()) return;
  throw Error(ErrorCode::DeviceLost,
              lost_call_ + ": the device was lost (" + device_name_ + "); open it again");
}

void Driver::before(const char* call) {
  check_lost();
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (!armed_.load(std::memory_order_acquire)) return;
  vk::Result result = vk::Result::eSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (!armed_ || (!fault_call_.empty() && fault_call_ != call)) return;
    if (fault_after_ > 0) {
      --fault_after_;
      return;
    }
    if (--fault_times_ == 0) armed_ = false;
    result = fault_;
  }
  fail(call, result);
}

void Driver::fail(const char* call, vk::Result result) {
  const bool memory = error_code(result) == ErrorCode::OutOfDeviceMemory ||
                      error_code(result) == ErrorCode::OutOfHostMemory;
  if (memory && probe_ && probe_() == vk::Result::eErrorDeviceLost) {
    result = vk::Result::eErrorDeviceLost;
  }
  const bool unknown = error_code(result) == ErrorCode::Internal && !makes_kernels(call);
  const std::string text = std::string(call) + ": " + vk::to_string(result) +
                           (device_name_.empty() ? "" : " on " + device_name_);
  if (result == vk::Result::eErrorDeviceLost || (unknown && !device_name_.empty())) {
    const std::lock_guard lock(mutex_);
    if (!lost_) lost_call_ = call;
    lost_.store(true, std::memory_order_release);
  }
  if (unknown) throw Error(ErrorCode::DeviceLost, text);
  check_lost();
  throw Error(error_code(result), text);
}

void Driver::inject(std::string_view call, std::uint64_t after, vk::Result result,
                    std::uint32_t times) {
  const std::lock_guard lock(mutex_);
  fault_call_ = call;
  fault_after_ = after;
  fault_ = result;
  fault_times_ = times;
  armed_.store(times > 0, std::memory_order_release);
}

}  // namespace topograd::runtime::vulkan
