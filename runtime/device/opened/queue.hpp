// Internal: the one compute queue, its timeline, and the objects that submissions keep alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "../driver/driver.hpp"
#include "memory_pools.hpp"

namespace topograd::runtime::vulkan {

class LiveTransfers;

/// One command buffer to run, the objects it keeps alive, and the buffers it touches.
struct Work {
  vk::CommandBuffer commands;
  std::shared_ptr<const void> keep;
  std::span<const std::shared_ptr<BufferState>> buffers;
  std::uint64_t first_runs = 0;  ///< of kernels that the software device compiles then
};

class Queue {
 public:
  explicit Queue(Core& core) : core_(core) {}

  void start();
  /// Submits in order with one driver call; returns the timeline value at its end.
  std::uint64_t submit(std::span<const Work> works, LiveTransfers& account);
  /// Waits for a value; see Submission::wait. The default bound is the device's own, and longer
  /// while the driver compiles.
  void wait(std::uint64_t value, double bound_seconds = 0);
  /// The value that the device has reached. Throws Error{DeviceLost}.
  std::uint64_t completed();
  std::uint64_t last() const { return last_; }
  /// Releases the objects that finished submissions kept alive.
  void reap(std::uint64_t completed);
  /// True if the device has finished all our work, or was truly lost: objects made from it may be
  /// destroyed. Asks the driver itself, past the latch and injected faults.
  bool quiet() const noexcept { return reached(last()); }
  /// The same for work submitted up to a value.
  bool reached(std::uint64_t value) const noexcept;

 private:
  struct InFlight {
    std::uint64_t value = 0;
    std::vector<std::shared_ptr<const void>> keep;
    std::uint64_t first_runs = 0;
  };

  double own_bound() const;

  Core& core_;
  vk::raii::Queue queue_{nullptr};
  vk::raii::Semaphore timeline_{nullptr};
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> last_{0};  // written under the mutex
  std::deque<InFlight> in_flight_;
};

}  // namespace topograd::runtime::vulkan
