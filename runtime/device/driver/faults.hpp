// Makes entry points of the driver fail, and counts what lives in it: for tests of what happens
// then.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::vulkan {

/// An entry point that can fail, and how: VkResults.
struct FallibleCall {
  std::string_view name;
  std::span<const std::int32_t> results;
};

/// Every one that this library uses, in the order in which a program comes to them.
std::span<const FallibleCall> fallible_calls();

/// Which use of which call fails.
struct Fault {
  std::size_t call = 0;     ///< in fallible_calls()
  std::uint64_t use = 0;    ///< counted from inject_fault() on, from 0
  std::int32_t result = 0;  ///< VkResult
  bool persistent = false;  ///< every later use, too; after a device loss, every call that may
                            ///< report one
};

/// Stands between this library and the loader from the next Vulkan instance on, for the rest of the
/// process: calls are counted, and objects from when they are made to when they are destroyed. What
/// fails does not reach layers and drivers, so that validation and drivers agree about what exists.
/// Any thread.
void watch_driver();
/// This process has opened a loader, watched or not: copies of it are of no use.
bool has_opened_driver();

/// Starts to count uses, and makes one fail. Never reached is never failed.
void inject_fault(const Fault& fault);
/// Nothing fails any more. Returns how many calls have failed since inject_fault().
std::uint64_t end_faults();

/// Uses of each of fallible_calls() since the last inject_fault() or reset, whether they failed or
/// not. Resets them.
std::vector<std::uint64_t> take_uses();

/// Objects that were made and not destroyed, by kind: "buffer", "memory", "device"...
std::map<std::string, std::uint64_t> live_objects();
/// Bytes of memory that were allocated and not freed.
std::uint64_t live_memory();
/// Destructions of what did not live.
std::uint64_t stray_destructions();

/// "VK_ERROR_DEVICE_LOST".
std::string result_name(std::int32_t result);

}  // namespace topograd::runtime::vulkan
