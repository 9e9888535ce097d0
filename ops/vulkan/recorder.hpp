// Internal: records launches into a command list, with barriers between dependent launches.
#pragma once

#include "../../runtime/device/device.hpp"
#include "../backend/backend.hpp"
#include "kernels.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topograd::ops {

class VulkanMemory final : public Memory {
 public:
  ///   front  bytes of the buffer before the memory
  VulkanMemory(std::uint64_t bytes, runtime::vulkan::Buffer buffer, std::uint64_t front,
               bool unified)
      : Memory(bytes), buffer_(std::move(buffer)), front_(front), unified_(unified) {}

  std::byte* host() const override { return unified_ ? buffer_.mapped() + front_ : nullptr; }
  const runtime::vulkan::Buffer& buffer() const { return buffer_; }
  std::uint64_t front() const { return front_; }

  runtime::vulkan::Submission last;  ///< last submission that uses it

 private:
  runtime::vulkan::Buffer buffer_;
  std::uint64_t front_;
  bool unified_;
};

inline VulkanMemory& as_vulkan(const std::shared_ptr<Memory>& memory) {
  return static_cast<VulkanMemory&>(*memory);
}

/// Bytes that alignment and guard zones may add to a binding.
inline constexpr std::uint64_t kBindingSlack = 1024;

/// Not thread-safe.
class VulkanRecorder {
 public:
  VulkanRecorder(std::shared_ptr<runtime::vulkan::Device> device, VulkanKernels& kernels)
      : device_(std::move(device)), kernels_(kernels) {}

  void launch(const Launch& launch);
  void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
            const std::shared_ptr<Memory>& to, std::uint64_t to_offset, std::uint64_t bytes);
  void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
            std::uint32_t word);
  /// True if the open list reads or writes it.
  bool uses(const VulkanMemory& memory) const { return ranges_.contains(&memory); }

  void flush();
  /// Reports the times of finished submissions; does not wait.
  void settle();

  /// Without timestamps, both wait for the device, so that the host's clock sees its time.
  bool begin_timing();
  void end_timing(std::function<void(std::optional<double>)> done);
  /// Called, without a time, when the work recorded so far has finished.
  void when_done(std::function<void(std::optional<double>)> done);

  std::uint64_t launches() const { return launches_; }
  std::uint64_t barriers() const { return barriers_; }

 private:
  /// Accesses to a memory since the last barrier.
  struct Range {
    std::uint64_t begin = 0, end = 0;
    bool written = false;
  };
  struct Use {
    const std::shared_ptr<Memory>* memory;
    Range range;
  };
  using List = std::shared_ptr<runtime::vulkan::CommandList>;
  /// The interval between two timestamps of a list.
  struct Span {
    List list;
    std::size_t from = 0, to = 0;
  };
  struct Timing {
    std::vector<Span> spans;
    std::optional<double> wall_us;  ///< by the host's clock, without timestamps
    std::function<void(std::optional<double>)> done;
    runtime::vulkan::Submission submission;  ///< submission of the last span
    bool submitted = false;
  };

  runtime::vulkan::CommandList& open();
  runtime::vulkan::Binding bind(const Argument& argument, std::uint32_t& first, Use& use) const;
  void order(std::span<const Use> uses);
  void recorded(std::uint64_t bytes);
  /// Submits what is recorded and waits for all submissions.
  void finish();
  void stamp(bool begin);
  void tell_when_done(std::vector<Span> spans, std::optional<double> wall_us,
                      std::function<void(std::optional<double>)> done);
  static std::optional<double> time_of(const Timing& timing);

  const std::shared_ptr<runtime::vulkan::Device> device_;
  VulkanKernels& kernels_;
  List list_;
  std::unordered_map<const VulkanMemory*, std::vector<Range>> ranges_;  // keys are in used_
  std::vector<std::shared_ptr<Memory>> used_;
  double estimate_us_ = 0;
  std::size_t in_list_ = 0, stamps_ = 0;
  std::deque<runtime::vulkan::Submission> in_flight_;
  std::uint64_t launches_ = 0, barriers_ = 0;

  bool timing_ = false;
  std::chrono::steady_clock::time_point timing_began_;  // without timestamps
  std::vector<Span> spans_;
  std::deque<Timing> unsettled_;  // in the order of submission
};

}  // namespace topograd::ops
