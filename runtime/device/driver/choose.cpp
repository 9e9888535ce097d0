// Choice of a device from options and environment.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <tuple>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "device_info.hpp"

namespace topograd::runtime::vulkan {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string listed(const std::vector<DeviceInfo>& list) {
  std::string text;
  for (const DeviceInfo& info : list) {
    text += (text.empty() ? "" : ", ") + std::to_string(info.index) + " = \"" + info.name + "\" (" +
            std::string(name(info.type)) + (info.unusable.empty() ? "" : "; " + info.unusable) +
            ")";
  }
  return text.empty() ? "none" : text;
}

int rank(DeviceType type) {
  switch (type) {
    case DeviceType::Discrete: return 4;
    case DeviceType::Integrated: return 3;
    case DeviceType::Virtual: return 2;
    case DeviceType::Other: return 1;
    case DeviceType::Software: return 0;
  }
  return 0;
}

std::uint64_t local_bytes(const DeviceInfo& info) {
  std::uint64_t bytes = 0;
  for (const MemoryHeap& heap : info.heaps) {
    if (heap.device_local) bytes = std::max(bytes, heap.size);
  }
  return bytes;
}

bool better(const DeviceInfo& a, const DeviceInfo& b) {
  const auto key = [](const DeviceInfo& info) {
    return std::tuple(info.unusable.empty(), rank(info.type), local_bytes(info));
  };
  return key(a) > key(b);
}

bool named(const DeviceInfo& info, const std::string& wanted) {
  std::uint32_t index = 0;
  const char* end = wanted.data() + wanted.size();
  const auto [stop, error] = std::from_chars(wanted.data(), end, index);
  if (error == std::errc{} && stop == end) return info.index == index;
  return lower(info.name).find(lower(wanted)) != std::string::npos;
}

}  // namespace

std::size_t choose_device(const std::vector<DeviceInfo>& list, const DeviceOptions& options) {
  const std::string wanted = options.device.empty()
                                 ? platform::environment("TOPOGRAD_DEVICE").value_or("")
                                 : options.device;
  auto best = list.end();
  for (auto it = list.begin(); it != list.end(); ++it) {
    if (!wanted.empty() && !named(*it, wanted)) continue;
    if (best == list.end() || better(*it, *best)) best = it;
  }
  if (best == list.end()) {
    throw Error(ErrorCode::NoDevice, "vulkan: no device " +
                                         (wanted.empty() ? "" : "\"" + wanted + "\" ") +
                                         "found; there is: " + listed(list));
  }
  if (!best->unusable.empty()) {
    throw Error(wanted.empty() ? ErrorCode::NoDevice : ErrorCode::Unsupported,
                "vulkan: device \"" + best->name + "\" cannot be used: " + best->unusable +
                    "; there is: " + listed(list));
  }
  return static_cast<std::size_t>(best - list.begin());
}

}  // namespace topograd::runtime::vulkan
