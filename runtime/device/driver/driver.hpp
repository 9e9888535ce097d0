// Internal: the Vulkan headers, and the single path of driver calls that can fail.
#pragma once

// platform::SharedLibrary opens the loader.
#define VULKAN_HPP_ENABLE_DYNAMIC_LOADER_TOOL 0
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vulkan/vulkan_raii.hpp>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/foreign_call.hpp"

namespace topograd::runtime::vulkan {

/// Makes driver calls, names them in errors, remembers the loss of the device, and lets tests make
/// any call fail.
///
/// The loss is latched first: after a loss drivers report small failures as out of memory, so every
/// memory failure asks `probe` first.
class Driver {
 public:
  /// Runs `function` (vulkan.hpp calls that throw) as the driver call `call`.
  ///
  /// Throws Error: DeviceLost, OutOfHostMemory, OutOfDeviceMemory, Unsupported, NoDevice if drivers
  /// may no longer be called (ForeignCall), or Internal if a kernel is being made and the driver's
  /// result is unspecific. Elsewhere such a result counts as a loss.
  template <class F>
  auto call(const char* call, F&& function) -> decltype(function()) {
    const ForeignCall permission(call);
    before(call);
    try {
      return std::forward<F>(function)();
    } catch (const vk::SystemError& error) {
      fail(call, static_cast<vk::Result>(error.code().value()));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::OutOfHostMemory, std::string(call) + ": out of host memory");
    }
  }

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// Throws Error{DeviceLost} after a loss.
  void check_lost() const;

  /// Sets the function that `fail` calls to test whether the device still answers; it returns
  /// eErrorDeviceLost if not.
  void set_probe(std::function<vk::Result()> probe) { probe_ = std::move(probe); }
  void set_device_name(std::string name) { device_name_ = std::move(name); }

  void inject(std::string_view call, std::uint64_t after, vk::Result result, std::uint32_t times);
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  void before(const char* call);
  [[noreturn]] void fail(const char* call, vk::Result result);

  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> armed_{false};
  std::function<vk::Result()> probe_;
  std::string device_name_;
  std::mutex mutex_;  // guards the members below
  std::string lost_call_;
  std::string fault_call_;
  std::uint64_t fault_after_ = 0;
  std::uint32_t fault_times_ = 0;
  vk::Result fault_ = vk::Result::eSuccess;
};

/// Makes a shared object; it is leaked if the driver may not be called when its last owner goes.
template <class T, class... A>
std::shared_ptr<T> make_driver_object(A&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<A>(arguments)...),
                            [](T* object) { delete_if_callable(object); });
}

/// Error code for a VkResult.
ErrorCode error_code(vk::Result result);

}  // namespace topograd::runtime::vulkan
