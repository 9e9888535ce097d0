// Internal: rings of host memory for writing and reading unmapped or busy buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "../device.hpp"
#include "../driver/driver.hpp"
#include "memory_pools.hpp"
#include "queue.hpp"

namespace topograd::runtime::vulkan {

/// A command buffer of copies between a ring and buffers.
struct Batch {
  vk::raii::CommandPool pool{nullptr};
  vk::raii::CommandBuffer commands{nullptr};
  /// Buffers of the copies; passed on with the submission.
  std::shared_ptr<std::vector<std::shared_ptr<BufferState>>> buffers;
  std::set<const BufferState*> written;  ///< since the last barrier
  bool ended = false;
  std::uint64_t value = 0;  ///< timeline value once submitted
};

/// Four segments, filled in turn; a segment is reused when its last submission has finished.
struct Ring {
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{4} << 20;
  static constexpr std::size_t kSegments = 4;

  std::shared_ptr<BufferState> memory;
  std::size_t segment = 0;
  std::uint64_t used = 0;  ///< bytes of the current segment
  std::array<std::uint64_t, kSegments> busy_until{};

  std::uint64_t offset() const { return segment * kSegmentBytes + used; }
  std::uint64_t room() const { return kSegmentBytes - used; }
};

/// Stages uploads and downloads; each call counts in the account of its handle.
class Staging {
 public:
  explicit Staging(Core& core) : core_(core) {}

  void upload(const Upload& piece, LiveTransfers& account);
  void download(std::span<const Download> pieces, LiveTransfers& account);
  /// Submits staged writes followed by `works`; returns the timeline value of the last one.
  std::uint64_t submit(std::span<const Work> works, LiveTransfers& account);

 private:
  /// A copied piece on its way to the caller's memory (readback).
  struct Readback {
    std::uint64_t offset = 0;  ///< in the readback ring
    std::span<std::byte> target;
  };

  std::uint64_t submit_locked(std::span<const Work> works, LiveTransfers& account);
  bool write_directly(const Upload& piece);
  bool read_directly(const Download& piece);
  void stage(const Upload& piece, LiveTransfers& account);
  void end(Batch& batch);
  void submitted(std::shared_ptr<Batch>& batch, std::uint64_t value);
  Batch& open_batch(LiveTransfers& account);
  std::shared_ptr<Batch> take_batch();
  void rotate_upload(LiveTransfers& account);
  void download_staged(std::span<const Download> pieces, LiveTransfers& account);
  void land(std::size_t segment);
  void finish_segment(std::shared_ptr<Batch>& batch, LiveTransfers& account);

  Core& core_;
  std::mutex mutex_;  // guards the upload side and the order of submissions
  Ring up_;
  std::shared_ptr<Batch> pending_;
  std::vector<std::shared_ptr<Batch>> idle_;
  std::mutex down_mutex_;  // guards the download side; taken before mutex_
  Ring down_;
  std::array<std::vector<Readback>, Ring::kSegments> readbacks_;
};

}  // namespace topograd::runtime::vulkan
