// Internal: traffic counters of a device and of each handle on it.
#pragma once

#include "device.hpp"

#include <atomic>
#include <cstdint>

namespace topograd::runtime::vulkan {

/// Counts of Transfers. Additions are also made to `whole`, which outlives it.
class LiveTransfers {
 public:
  explicit LiveTransfers(LiveTransfers* whole = nullptr) : whole_(whole) {}

  void add(const Transfers& more);
  Transfers read() const;

 private:
  LiveTransfers* whole_;
  std::atomic<std::uint64_t> dispatches_{0};
  std::atomic<std::uint64_t> submissions_{0};
  std::atomic<std::uint64_t> uploads_{0};
  std::atomic<std::uint64_t> bytes_up_{0};
  std::atomic<std::uint64_t> readbacks_{0};
  std::atomic<std::uint64_t> bytes_down_{0};
};

}  // namespace topograd::runtime::vulkan
