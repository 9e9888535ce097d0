// Aligned host memory; large blocks are kept for the next arrays.
#include "host_blocks.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <new>
#include <string>

namespace topograd::ops {
namespace {

// Complete cache lines and vectors.
constexpr std::align_val_t kAlignment{64};

void free_block(std::span<std::byte> block) { ::operator delete(block.data(), kAlignment); }

}  // namespace

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
