// Fault injection and object counts for driver calls, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::vulkan {

/// An entry point that can fail, and its VkResults.
struct FallibleCall {
  std::string_view name;
  std::span<const std::int32_t> results;
};

/// All fallible entry points that this library uses, in the order of first use in a program.
std::span<const FallibleCall> fallible_calls();

/// The use of a call that fails.
struct Fault {
  std::size_t call = 0;     ///< in fallible_calls()
  std::uint64_t use = 0;    ///< counted from inject_fault() on, from 0
  std::int32_t result = 0;  ///< VkResult
  /// Also fails every later use; after a device loss, every call that may report one.
  bool persistent = false;
};

/// Wraps the loader from the next Vulkan instance on, for the rest of the process: counts calls,
/// and objects from creation to destruction. Failing calls do not reach layers and drivers, so that
/// both agree about which objects exist. Thread-safe.
void watch_driver();
/// True if this process has opened a loader, wrapped or not: its fork() copies cannot use drivers.
bool has_opened_driver();

/// Starts to count uses, and makes one fail if it is reached.
void inject_fault(const Fault& fault);
/// Ends the fault. Returns how many calls have failed since inject_fault().
std::uint64_t end_faults();

/// Returns and resets the uses, failed or not, of each of fallible_calls() since inject_fault().
std::vector<std::uint64_t> take_uses();

/// Number of live objects by kind: "buffer", "memory", "device"...
std::map<std::string, std::uint64_t> live_objects();
/// Bytes of live memory objects.
std::uint64_t live_memory();
/// Number of destructions of objects that did not exist.
std::uint64_t stray_destructions();

/// "VK_ERROR_DEVICE_LOST".
std::string result_name(std::int32_t result);

}  // namespace topograd::runtime::vulkan
