// The file of measurements: its format, and when an executor reads and writes it.
#pragma once

#include "../cache/disk_cache.hpp"
#include "backend.hpp"
#include "routing/knowledge.hpp"
#include "task_record.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

/// Largest number of kernels whose times a file keeps; the most recently used are kept.
inline constexpr std::size_t kMostKernelsOfFile = 512;

/// Writes JSON, readable by parse_knowledge(). Equal data give equal text.
std::string to_json(const Knowledge& knowledge);

/// Throws Error{Parse} with the problem if the text is not JSON or not valid data.
Knowledge parse_knowledge(std::string_view json);

/// Merges `from` into `into`. Kernels, sizes and operations in both stay as in `into`; kernels and
/// training rows beyond the bounds, and targets measured with another driver, are left out.
void merge(Knowledge& into, const Knowledge& from, std::size_t max_kernels = ~std::size_t{0});

/// Removes the measurements of this target; thresholds, which belong to no target, stay.
void forget(Knowledge& knowledge, const std::string& target);

/// A folder that keeps learned data between runs: versioned, checksummed, replaced as a whole, in a
/// binary form that is read in a millisecond or two.
///
/// An unusable file (damaged, of another version or machine, another owner, not writable) means a
/// cold start and a count, never an error. Safe for several threads and processes.
class KnowledgeFile {
 public:
  /// `folder` "default" is the cache folder. Data of another kind of processor are not used.
  explicit KnowledgeFile(const std::string& folder);

  /// Nothing if there is none, or it cannot be used.
  std::optional<Knowledge> load();
  bool store(Knowledge knowledge);

  /// Number of files that existed and could not be used.
  std::uint64_t rejected() const { return cache_.counters().rejected + unreadable_; }
  /// Empty if the folder can be used, else the reason why not.
  const std::string& disabled() const { return cache_.disabled(); }
  /// Path of the file.
  std::string path() const;

 private:
  DiskCache cache_;
  std::uint64_t unreadable_ = 0;
};

/// Learned data on disk, for the scheduler of one executor. Thread-safe.
class StoredKnowledge {
 public:
  /// The scheduler gets what HybridOptions::state has when that first matters (merge_later()): to
  /// read it takes longer than a small solve. All arguments outlive it.
  StoredKnowledge(const HybridOptions& options, Scheduler& scheduler, Telemetry& telemetry);

  /// Gives the scheduler what is known of a device. Returns the driver whose measurements are
  /// forgotten because the device has another one now.
  std::optional<std::string> add(const ExecutorDevice& device);
  /// Merges what the scheduler has learned into the file. Returns false if that fails or is
  /// disabled.
  bool save(const DeviceList& devices);

 private:
  /// Reads the file, and counts that. Returns nothing if there is none, or it cannot be used.
  const Knowledge* load();

  const HybridOptions& options_;
  Scheduler& scheduler_;
  Telemetry& telemetry_;
  std::unique_ptr<KnowledgeFile> file_;  // from load() on
  std::mutex mutex_;                     // guards known_, which load() writes before others use it
  Knowledge known_;                      // loaded data, for devices that are added later
};

}  // namespace topograd::runtime::hybrid
