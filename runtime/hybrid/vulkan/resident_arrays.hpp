// Internal: inputs that stay on a device between tasks.
#pragma once

#include "../../device/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

namespace topograd::runtime::vulkan {

/// Buffers by key and version, least recently used first. Not thread-safe.
class ResidentArrays {
 public:
  /// Keeps at most this many bytes from now on and evicts the rest.
  void limit(std::uint64_t bytes) {
    bound_ = bytes;
    trim();
  }
  /// Returns the buffer under this key if it has this version and size.
  std::shared_ptr<Buffer> find(std::uint64_t key, std::uint64_t version, std::uint64_t bytes) {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found == entries_.end() || found->version != version || found->buffer->size() != bytes)
      return nullptr;
    entries_.splice(entries_.end(), entries_, found);
    return found->buffer;
  }
  void put(std::uint64_t key, std::uint64_t version, std::shared_ptr<Buffer> buffer) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
    entries_.push_back({key, version, std::move(buffer)});
    trim();
  }
  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.buffer->size();
    return sum;
  }

 private:
  struct Entry {
    std::uint64_t key, version;
    std::shared_ptr<Buffer> buffer;
  };
  void trim() {
    std::uint64_t sum = bytes();
    for (; sum > bound_; entries_.pop_front()) sum -= entries_.front().buffer->size();
  }
  std::uint64_t bound_ = 0;
  std::list<Entry> entries_;
};

}  // namespace topograd::runtime::vulkan
