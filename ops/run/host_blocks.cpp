// Aligned host memory: large blocks are kept for the next arrays; guard zones around it for tests.
#include "host_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "../../ir/error.hpp"
#include "storage.hpp"

namespace topograd::ops {
namespace {

std::atomic<std::uint64_t> zone_bytes{0};

struct Kept {
  std::mutex mutex;
  std::vector<std::function<std::string()>> checks;
};
Kept& kept() {
  static Kept& instance = *new Kept;
  return instance;
}

// Complete cache lines and vectors.
constexpr std::align_val_t kAlignment{64};

void free_block(std::span<std::byte> block) { ::operator delete(block.data(), kAlignment); }

}  // namespace

void set_guard_zones(std::uint64_t bytes) { zone_bytes = (bytes + 255) / 256 * 256; }
std::uint64_t guard_zone_bytes() { return zone_bytes; }

void keep_guarded(std::function<std::string()> check) {
  const std::lock_guard lock(kept().mutex);
  kept().checks.push_back(std::move(check));
}

std::string describe_zone(const std::string& what, std::span<const std::byte> zone) {
  for (std::size_t k = 0; k + 4 <= zone.size(); k += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, zone.data() + k, 4);
    if (word != kGuardWord) return what + ": byte " + std::to_string(k) + " was written";
  }
  return {};
}

std::vector<std::string> check_guard_zones() {
  std::vector<std::function<std::string()>> checks;
  {
    const std::lock_guard lock(kept().mutex);
    checks = std::exchange(kept().checks, {});
  }
  std::vector<std::string> found;
  for (const auto& check : checks) {
    if (std::string line = check(); !line.empty()) found.push_back(std::move(line));
  }
  return found;
}

std::span<std::byte> HostBlocks::take(std::uint64_t bytes) {
  if (const std::span<std::byte> kept = find_kept(bytes); !kept.empty()) return kept;
  const auto fresh = [bytes] {
    return static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
  };
  std::byte* memory = fresh();
  if (memory == nullptr) {
    free_kept(0);
    memory = fresh();
  }
  if (memory == nullptr) {
    throw Error(ErrorCode::OutOfHostMemory,
                "array: no memory for " + std::to_string(bytes) + " bytes on the host");
  }
  return {memory, bytes};
}

void HostBlocks::give_back(std::span<std::byte> block) noexcept {
  if (block.size() < kLeastKept || block.size() > limit_) return free_block(block);
  try {
    const std::lock_guard lock(mutex_);
    kept_.push_back(block);
    bytes_ += block.size();
  } catch (const std::bad_alloc&) {
    return free_block(block);
  }
  free_kept(limit_);
}

std::uint64_t HostBlocks::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

/// The smallest kept block that fits; empty if there is none.
std::span<std::byte> HostBlocks::find_kept(std::uint64_t bytes) {
  if (bytes < kLeastKept) return {};
  const std::lock_guard lock(mutex_);
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    const bool fits = at->size() >= bytes && at->size() <= bytes + bytes / 4;
    if (fits && (best == kept_.end() || at->size() <= best->size())) best = at;
  }
  if (best == kept_.end()) return {};
  const std::span<std::byte> block = *best;
  bytes_ -= block.size();
  kept_.erase(best);
  return block;
}

/// Frees the oldest blocks until at most `most` bytes are kept.
void HostBlocks::free_kept(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  auto end = kept_.begin();
  for (; end != kept_.end() && bytes_ > most; ++end) {
    bytes_ -= end->size();
    free_block(*end);
  }
  kept_.erase(kept_.begin(), end);
}

}  // namespace topograd::ops
