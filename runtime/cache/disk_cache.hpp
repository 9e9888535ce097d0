// A folder of checked binary blobs (SPIR-V, pipeline caches, tuning records) that may be deleted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "content_hash.hpp"

namespace topograd::runtime {

/// Header fields of each blob, and the size bound of the cache.
struct DiskCacheOptions {
  std::string folder;     ///< empty: TOPOGRAD_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache
  std::string generator;  ///< version of the program that makes the blobs; another one is a miss
  std::string identity;   ///< device and driver; another one is a miss
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  ///< least recently used ones go first
};

struct DiskCacheCounters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;    ///< missing or rejected
  std::uint64_t rejected = 0;  ///< damaged, of another version or of another device
  std::uint64_t writes = 0;
  std::uint64_t write_failures = 0;
  std::uint64_t evictions = 0;
};

/// Blobs on disk by (kind, 128-bit key). Errors on disk never throw: they count as misses. Safe for
/// several threads and processes: a write makes a temporary file and renames it.
///
/// The folder is made with mode 0700 and not used if it has another owner or others may write into
/// it.
class DiskCache {
 public:
  explicit DiskCache(DiskCacheOptions options);

  /// Returns the blob last stored, or nothing. `kind` is a short word of [a-z0-9_].
  std::optional<std::vector<std::byte>> load(std::string_view kind, Hash128 key);
  /// Stores a blob. Returns false (and counts) if it could not be written.
  bool store(std::string_view kind, Hash128 key, std::span<const std::byte> blob);

  /// Empty if the cache works, else the reason why it is off.
  const std::string& disabled() const { return disabled_; }
  const std::string& folder() const { return options_.folder; }
  DiskCacheCounters counters() const;
  /// Number of blobs of a kind in the folder, from any writer. Cost: lists the folder.
  std::size_t count(std::string_view kind) const;
  /// Their contents if they are undamaged, of any generator and identity. Cost: reads them.
  std::vector<std::vector<std::byte>> all(std::string_view kind) const;
  /// Path of a blob, for tests and messages.
  std::string path(std::string_view kind, Hash128 key) const;

 private:
  void evict();
  std::vector<std::string> files(std::string_view kind) const;

  DiskCacheOptions options_;
  std::string disabled_;
  mutable std::mutex mutex_;
  DiskCacheCounters counters_;
  /// Estimate of the folder's size; the first write makes it.
  std::optional<std::uint64_t> bytes_;
};

}  // namespace topograd::runtime
