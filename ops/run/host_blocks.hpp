// Aligned host memory: large blocks are kept for the next arrays; guard zones around it for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Guard zones around allocations, for tests.
inline constexpr std::uint32_t kGuardWord = 0xfeedc0deu;

/// `check` returns the errors in one allocation's zones and releases the allocation.
void keep_guarded(std::function<std::string()> check);

/// A line for a zone that contains anything else than the word; empty otherwise.
std::string describe_zone(const std::string& what, std::span<const std::byte> zone);

/// Blocks of host memory for arrays. The system clears the pages of each large block anew, which
/// takes longer than most operations on it, so those that come back are kept and given out again.
/// Any thread may call it.
class HostBlocks {
 public:
  /// Blocks below this are the allocator's, which keeps them itself.
  static constexpr std::uint64_t kLeastKept = std::uint64_t{1} << 17;

  /// Keeps at most `limit` bytes; the blocks that came back first leave first.
  explicit HostBlocks(std::uint64_t limit) : limit_(limit) {}
  ~HostBlocks() { free_kept(0); }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  /// At least `bytes` bytes, at most a quarter more, aligned to cache lines; the contents are
  /// arbitrary. Throws Error{OutOfHostMemory}.
  std::span<std::byte> take(std::uint64_t bytes);
  void give_back(std::span<std::byte> block) noexcept;

  std::uint64_t kept_bytes() const;

 private:
  std::span<std::byte> find_kept(std::uint64_t bytes);
  void free_kept(std::uint64_t most);

  const std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> kept_;  // oldest first
  std::uint64_t bytes_ = 0;                 // of kept_
};

}  // namespace topograd::ops
