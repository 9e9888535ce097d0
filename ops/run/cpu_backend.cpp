// The CPU as a backend: aligned host memory, without a queue.
#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"
#include "host_blocks.hpp"
#include "storage.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string>

namespace topograd::ops {
namespace {

// Memory that is kept for the next arrays. Under the sanitizers none is, so that they see uses of
// what has been freed.
#ifdef TOPOGRAD_SANITIZED
constexpr std::uint64_t kMostKept = 0;
#else
constexpr std::uint64_t kMostKept = std::uint64_t{1} << 30;
#endif

struct Usage {
  std::atomic<std::uint64_t> now{0}, peak{0};

  void add(std::uint64_t bytes) {
    const std::uint64_t sum = now += bytes;
    std::uint64_t seen = peak;
    while (seen < sum && !peak.compare_exchange_weak(seen, sum)) {
    }
  }
};

/// A block of memory in use.
class Block {
 public:
  Block(std::uint64_t bytes, HostBlocks& blocks, Usage& usage)
      : blocks_(blocks), usage_(usage), bytes_(bytes), memory_(blocks.take(bytes)) {
    usage_.add(bytes_);
  }
  ~Block() {
    usage_.now -= bytes_;
    blocks_.give_back(memory_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return memory_.data(); }

 private:
  HostBlocks& blocks_;
  Usage& usage_;
  std::uint64_t bytes_;
  std::span<std::byte> memory_;  // may be larger
};

class HostMemory final : public Memory {
 public:
  HostMemory(std::uint64_t bytes, std::shared_ptr<Block> block, std::uint64_t offset)
      : Memory(bytes), block_(std::move(block)), offset_(offset) {}
  std::byte* host() const override { return block_->data() + offset_; }

 private:
  std::shared_ptr<Block> block_;
  std::uint64_t offset_;
};

class CallersMemory final : public Memory {
 public:
  explicit CallersMemory(std::span<std::byte> memory)
      : Memory(memory.size()), data_(memory.data()) {}
  std::byte* host() const override { return data_; }

 private:
  std::byte* data_;
};

/// There is no queue: all work has finished, and its time is the caller's.
class CpuClock final : public QueueClock {
 public:
  bool begin() override { return true; }
  void end(std::function<void(std::optional<double>)> done) override { done(std::nullopt); }
  void when_done(std::function<void()> done) override { done(); }
};

class CpuBackend final : public OpBackend {
 public:
  CpuBackend()
      : OpBackend({.name = "cpu",
                   .kind = "cpu",
                   .memory_bytes = platform::physical_memory_bytes(),
                   .float64 = true,
                   .unified = true},
                  {}) {}

  std::shared_ptr<Memory> allocate(std::uint64_t bytes, std::string_view name) override {
    const std::uint64_t rounded = (std::max<std::uint64_t>(bytes, 4) + 63) / 64 * 64;
    const std::uint64_t zone = guard_zone_bytes();
    if (zone == 0)
      return std::make_shared<HostMemory>(bytes, std::make_shared<Block>(rounded, blocks_, usage_),
                                          0);
    auto block = std::make_shared<Block>(bytes + 2 * zone, blocks_, usage_);
    const auto fill = [&](std::uint64_t first) {
      for (std::uint64_t k = 0; k < zone; k += 4)
        std::memcpy(block->data() + first + k, &kGuardWord, 4);
    };
    fill(0);
    fill(zone + bytes);
    keep_guarded([block, zone, bytes, what = std::string(name)] {
      const std::string before = describe_zone(what + " (cpu) in front", {block->data(), zone});
      return !before.empty()
                 ? before
                 : describe_zone(what + " (cpu) behind", {block->data() + zone + bytes, zone});
    });
    return std::make_shared<HostMemory>(bytes, block, zone);
  }

  std::shared_ptr<Memory> import(std::span<std::byte> memory, std::string_view) override {
    return std::make_shared<CallersMemory>(memory);
  }

  void upload(const std::shared_ptr<Memory>& to, std::uint64_t offset,
              std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to->host() + offset, from.data(), from.size());
  }
  void download(const std::shared_ptr<Memory>& from, std::uint64_t offset,
                std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from->host() + offset, to.size());
  }
  void copy(const std::shared_ptr<Memory>& from, std::uint64_t from_offset,
            const std::shared_ptr<Memory>& to, std::uint64_t to_offset,
            std::uint64_t bytes) override {
    if (bytes > 0) std::memmove(to->host() + to_offset, from->host() + from_offset, bytes);
  }
  void fill(const std::shared_ptr<Memory>& to, std::uint64_t offset, std::uint64_t bytes,
            std::uint32_t word) override {
    for (std::uint64_t k = 0; k < bytes; k += 4) std::memcpy(to->host() + offset + k, &word, 4);
  }
  void wait(const std::shared_ptr<Memory>&) override {}

  void launch(const Launch& launch) override { prepare(*launch.kernel); }
  bool prepare(const ComputeKernel& kernel) override {
    throw Error(ErrorCode::Unsupported, "kernel \"" + kernel.name + "\": the cpu runs no shaders");
  }
  void flush() override {}
  void synchronise() override {}
  QueueClock& clock() override { return clock_; }

  BackendCounters counters() const override {
    BackendCounters c;
    c.bytes_in_use = usage_.now;
    c.peak_bytes_in_use = usage_.peak;
    return c;
  }

 private:
  CpuClock clock_;
  Usage usage_;
  HostBlocks blocks_{std::min(kMostKept, platform::physical_memory_bytes() / 16)};
};

}  // namespace

const std::shared_ptr<OpBackend>& cpu_backend() {
  // Never destroyed: arrays of any lifetime refer to it.
  static const auto& backend = *new std::shared_ptr<OpBackend>(std::make_shared<CpuBackend>());
  return backend;
}

bool OpBackend::is_cpu() const { return this == cpu_backend().get(); }

}  // namespace topograd::ops
