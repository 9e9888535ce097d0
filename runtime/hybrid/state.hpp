// What a scheduler has learned, as text and on disk.
#pragma once

#include "../cache/disk_cache.hpp"
#include "routing/scheduler.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

/// Kernels of which a file keeps the times, at most; those that were met last go before others.
inline constexpr std::size_t kMostKernelsOfFile = 512;

/// JSON, readable by parse_knowledge(). The same knowledge gives the same text.
std::string to_json(const Knowledge& knowledge);

/// Throws Error{Parse} for text that is not JSON or not knowledge, naming what is wrong.
Knowledge parse_knowledge(std::string_view json);

/// `from` into `into`: kernels, sizes and operations that are in both stay as they are in `into`;
/// left out are kernels and training rows beyond the bounds, and targets measured under another
/// driver.
void merge(Knowledge& into, const Knowledge& from, std::size_t max_kernels = ~std::size_t{0});

/// Drops what was measured on this target; thresholds, which belong to no target, stay.
void forget(Knowledge& knowledge, const std::string& target);

/// A folder that knowledge is kept in between runs: versioned, checksummed, replaced as a whole, in
/// a binary form that is read in a millisecond or two.
/// Whatever is wrong there (damaged, of another version or machine, not ours, not writable) means a
/// cold start and a counter, never an error. Safe for several threads and processes.
class KnowledgeFile {
 public:
  /// `folder` "default" is that of the caches. What another kind of processor measured is not used.
  explicit KnowledgeFile(const std::string& folder);

  /// Nothing if there is none, or it cannot be used.
  std::optional<Knowledge> load();
  bool store(Knowledge knowledge);

  /// Files that were there and could not be used.
  std::uint64_t rejected() const { return cache_.counters().rejected + unreadable_; }
  /// Empty if the folder can be used, else why not.
  const std::string& disabled() const { return cache_.disabled(); }
  /// Of the file.
  std::string path() const;

 private:
  DiskCache cache_;
  std::uint64_t unreadable_ = 0;
};

}  // namespace topograd::runtime::hybrid
