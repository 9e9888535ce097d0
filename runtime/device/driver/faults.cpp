// A table of entry points that wrap the loader's.
#include "faults.hpp"

#include "instance.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr VkResult kHost = VK_ERROR_OUT_OF_HOST_MEMORY;
constexpr VkResult kDevice = VK_ERROR_OUT_OF_DEVICE_MEMORY;
constexpr std::string_view kNothing = "nothing";

template <class... Results>
constexpr auto results_of(Results... results) {
  return std::array<std::int32_t, sizeof...(Results) + 1>{static_cast<std::int32_t>(results)...,
                                                          VK_ERROR_UNKNOWN};
}

// The table is read several times: as results, list of calls, numbers, created objects, and
// wrappers.
#define TG_DESTROYS(name, made)
#define TG_FALLIBLE(name, made, ...) constexpr auto name##_results = results_of(__VA_ARGS__);
#include "fallible_calls.def"
#undef TG_FALLIBLE
#define TG_FALLIBLE(name, made, ...) FallibleCall{#name, name##_results},
constexpr FallibleCall kCalls[] = {
#include "fallible_calls.def"
};
#undef TG_FALLIBLE
#define TG_FALLIBLE(name, made, ...) name,
namespace number {
enum Number : std::size_t {
#include "fallible_calls.def"
};
}  // namespace number
#undef TG_FALLIBLE
#define TG_FALLIBLE(name, made, ...) #made,
constexpr std::string_view kMade[] = {
#include "fallible_calls.def"
};
#undef TG_FALLIBLE
#undef TG_DESTROYS

template <class Handle>
std::uint64_t as_number(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return handle;
  }
}

/// The handle of as_number().
template <class Handle>
Handle as_pointer(std::uint64_t number) {
  return std::bit_cast<Handle>(static_cast<std::uintptr_t>(number));
}

bool may_report_loss(std::size_t call) {
  return std::ranges::find(kCalls[call].results, VK_ERROR_DEVICE_LOST) !=
         kCalls[call].results.end();
}

/// Live objects of the driver, and the planned fault.
class Watch {
 public:
  /// Returns the result of a failing call, or nothing.
  std::optional<VkResult> enter(std::size_t call) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t use = uses_[call]++;
    if (!fault_) return std::nullopt;
    const bool lost = failed_ > 0 && fault_->persistent && fault_->result == VK_ERROR_DEVICE_LOST;
    const bool reached =
        call == fault_->call && (fault_->persistent ? use >= fault_->use : use == fault_->use);
    // A lost device reports the loss everywhere; a new one can be made.
    const bool follows = lost && call != number::vkCreateDevice && may_report_loss(call);
    if (!reached && !follows) return std::nullopt;
    if (failed_++ == 0 && fault_->result == VK_ERROR_DEVICE_LOST) stop_devices();
    return static_cast<VkResult>(fault_->result);
  }

  void made(std::string_view kind, std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    ++live_[{kind, handle}];
  }

  void allocated(std::uint64_t handle, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[handle] = bytes;
  }

  void destroyed(std::string_view kind, std::uint64_t handle) {
    if (handle == 0) return;
    const std::lock_guard lock(mutex_);
    if (kind == "memory") bytes_.erase(handle);
    const auto found = live_.find({kind, handle});
    if (found == live_.end()) {
      ++strays_;
    } else if (--found->second == 0) {
      live_.erase(found);
    }
  }

  void begin(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    failed_ = 0;
    uses_.fill(0);
  }

  std::uint64_t end() {
    const std::lock_guard lock(mutex_);
    fault_.reset();
    return std::exchange(failed_, 0);
  }

  std::vector<std::uint64_t> take_uses() {
    const std::lock_guard lock(mutex_);
    const auto uses = std::exchange(uses_, {});
    return {uses.begin(), uses.end()};
  }

  std::map<std::string, std::uint64_t> live() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::uint64_t> counts;
    for (const auto& [object, count] : live_) counts[std::string(object.first)] += count;
    return counts;
  }

  std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [handle, bytes] : bytes_) sum += bytes;
    return sum;
  }

  std::uint64_t strays() const {
    const std::lock_guard lock(mutex_);
    return strays_;
  }

  VkInstance an_instance() const {
    const std::lock_guard lock(mutex_);
    for (const auto& [object, count] : live_) {
      if (object.first == "instance") return as_pointer<VkInstance>(object.second);
    }
    return nullptr;
  }

 private:
  void stop_devices() const;

  mutable std::mutex mutex_;
  std::map<std::pair<std::string_view, std::uint64_t>, std::uint64_t> live_;  // by kind and handle
  std::map<std::uint64_t, std::uint64_t> bytes_;                              // of memory objects
  std::uint64_t strays_ = 0;
  std::optional<Fault> fault_;
  std::uint64_t failed_ = 0;
  std::array<std::uint64_t, std::size(kCalls)> uses_{};
};

// Never destroyed: drivers are still called while the process ends.
Watch& watch() {
  static Watch& made = *new Watch;
  return made;
}

/// Wraps one entry point; calls the loader's entry point for an instance, which serves all devices.
template <std::size_t kCall, class Function>
struct Front;

template <std::size_t kCall, class... A>
struct Front<kCall, VkResult(VKAPI_PTR*)(A...)> {
  static inline std::atomic<VkResult(VKAPI_PTR*)(A...)> next{nullptr};

  static VKAPI_ATTR VkResult VKAPI_CALL call(A... arguments) {
    if (const auto failure = watch().enter(kCall)) return *failure;
    const VkResult result = next.load(std::memory_order_acquire)(arguments...);
    if constexpr (kMade[kCall] != kNothing) {
      const auto all = std::tie(arguments...);
      if (result == VK_SUCCESS) {
        const std::uint64_t handle = as_number(*std::get<sizeof...(A) - 1>(all));
        watch().made(kMade[kCall], handle);
        if constexpr (kCall == number::vkAllocateMemory)
          watch().allocated(handle, std::get<1>(all)->allocationSize);
      }
    }
    return result;
  }
};

struct Kind {
  char name[32] = {};
  template <std::size_t kSize>
  constexpr Kind(const char (&text)[kSize]) {  // NOLINT: reads as the text itself
    std::copy_n(text, kSize, name);
  }
};

/// Wraps entry points whose handle argument comes before the allocator and is destroyed.
template <Kind kKind, class Function>
struct FrontOfEnd;

template <Kind kKind, class... A>
struct FrontOfEnd<kKind, void(VKAPI_PTR*)(A...)> {
  static inline std::atomic<void(VKAPI_PTR*)(A...)> next{nullptr};

  static VKAPI_ATTR void VKAPI_CALL call(A... arguments) {
    watch().destroyed(kKind.name, as_number(std::get<sizeof...(A) - 2>(std::tie(arguments...))));
    next.load(std::memory_order_acquire)(arguments...);
  }
};

struct Entry {
  std::string_view name;
  PFN_vkVoidFunction front;
  void (*put_behind)(PFN_vkVoidFunction next);
};

template <class F>
Entry entry(std::string_view name) {
  return {name, reinterpret_cast<PFN_vkVoidFunction>(&F::call), [](PFN_vkVoidFunction next) {
            F::next.store(reinterpret_cast<decltype(F::next.load())>(next),
                          std::memory_order_release);
          }};
}

const Entry* find_entry(std::string_view name) {
#define TG_FALLIBLE(name, made, ...) entry<Front<number::name, PFN_##name>>(#name),
#define TG_DESTROYS(name, made) entry<FrontOfEnd<#made, PFN_##name>>(#name),
  static const Entry kEntries[] = {
#include "fallible_calls.def"
  };
#undef TG_FALLIBLE
#undef TG_DESTROYS
  const auto* const found = std::ranges::find(kEntries, name, &Entry::name);
  return found == std::end(kEntries) ? nullptr : found;
}

std::atomic<bool> watching{false}, opened{false};
std::atomic<PFN_vkGetInstanceProcAddr> instance_entries{nullptr};
std::atomic<PFN_vkGetDeviceProcAddr> device_entries{nullptr};

// The driver still runs submitted work, but a lost device may be destroyed at once: waits for it.
void Watch::stop_devices() const {
  const auto wait =
      Front<number::vkDeviceWaitIdle, PFN_vkDeviceWaitIdle>::next.load(std::memory_order_acquire);
  for (const auto& [object, count] : live_) {
    if (object.first == "device" && wait != nullptr) wait(as_pointer<VkDevice>(object.second));
  }
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_entry(VkDevice device, const char* name) {
  if (name == std::string_view("vkGetDeviceProcAddr"))
    return reinterpret_cast<PFN_vkVoidFunction>(&device_entry);
  const PFN_vkVoidFunction own = device_entries.load()(device, name);
  const Entry* const front = own == nullptr ? nullptr : find_entry(name);
  if (front == nullptr) return own;
  const PFN_vkVoidFunction shared = instance_entries.load()(watch().an_instance(), name);
  front->put_behind(shared == nullptr ? own : shared);
  return front->front;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_entry(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction next = instance_entries.load()(instance, name);
  if (next == nullptr) return nullptr;
  if (name == std::string_view("vkGetInstanceProcAddr"))
    return reinterpret_cast<PFN_vkVoidFunction>(&instance_entry);
  if (name == std::string_view("vkGetDeviceProcAddr")) {
    device_entries = reinterpret_cast<PFN_vkGetDeviceProcAddr>(next);
    return reinterpret_cast<PFN_vkVoidFunction>(&device_entry);
  }
  const Entry* const front = find_entry(name);
  if (front == nullptr) return next;
  front->put_behind(next);
  return front->front;
}

}  // namespace

PFN_vkGetInstanceProcAddr watched(PFN_vkGetInstanceProcAddr loader) {
  opened = true;
  if (!watching) return loader;
  instance_entries = loader;
  return &instance_entry;
}

std::span<const FallibleCall> fallible_calls() { return kCalls; }
bool has_opened_driver() { return opened; }
void watch_driver() { watching = true; }
void inject_fault(const Fault& fault) { watch().begin(fault); }
std::uint64_t end_faults() { return watch().end(); }
std::vector<std::uint64_t> take_uses() { return watch().take_uses(); }
std::map<std::string, std::uint64_t> live_objects() { return watch().live(); }
std::uint64_t live_memory() { return watch().bytes(); }
std::uint64_t stray_destructions() { return watch().strays(); }

std::string result_name(std::int32_t result) {
  return vk::to_string(static_cast<vk::Result>(result));
}

}  // namespace topograd::runtime::vulkan
