// The data that earlier runs have learned, and the file to which this run adds.
#pragma once

#include "device_list.hpp"
#include "state.hpp"
#include "telemetry/telemetry.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace topograd::runtime::hybrid {

/// Learned data on disk, for the scheduler of one executor. Thread-safe.
class StoredKnowledge {
 public:
  /// Reads HybridOptions::state, if there is one, and counts it. All arguments outlive it.
  StoredKnowledge(const HybridOptions& options, Scheduler& scheduler, Telemetry& telemetry);

  /// Gives the scheduler what is known of a device. Returns the driver whose measurements are
  /// forgotten because the device has another one now.
  std::optional<std::string> add(const ExecutorDevice& device);
  /// Merges what the scheduler has learned into the file. Returns false if that fails or is
  /// disabled.
  bool save(const DeviceList& devices);

 private:
  const HybridOptions& options_;
  Scheduler& scheduler_;
  Telemetry& telemetry_;
  std::unique_ptr<KnowledgeFile> file_;
  std::mutex mutex_;  // guards known_
  Knowledge known_;   // loaded data, for devices that are added later
};

}  // namespace topograd::runtime::hybrid
