// Work that callers run themselves: decisions by an executor's rules, and its histories and
// counters.
#pragma once

#include "device_list.hpp"
#include "recorder.hpp"
#include "routing/scheduler.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace topograd::runtime::hybrid {

/// Solves, Evaluators and operations of arrays and tensors ask here where they should run, and say
/// how it went. Thread-safe.
class OutsideWork {
 public:
  /// All arguments outlive it.
  OutsideWork(Scheduler& scheduler, const DeviceList& devices, Recorder& recorder)
      : scheduler_(scheduler), devices_(devices), recorder_(recorder) {}

  /// Chooses a target. Follow with record() or Scheduler::cancel().
  Decision decide(const TaskShape& task);
  /// The same for one of several tasks that were placed as one (Scheduler::place()).
  Decision follow(const TaskShape& task, const Decision& placed);
  /// Counts a choice made elsewhere; decide() counts its own.
  void routed(std::string_view operation, const Decision& decision);

  /// Records that the task ran at its target, or failed there.
  void record(const TaskShape& task, const Decision& decision, const Outcome& outcome);
  /// Updates counters, trace and observer only, for work whose total time teaches the scheduler
  /// nothing.
  ///
  ///   target    where it really ran
  ///   decision  its initial decision, for the observer
  void ran(const TaskShape& task, std::size_t target, const Outcome& outcome,
           const Decision& decision);
  /// Records that the host has read results of a queued operation, and the time this took in
  /// addition to the kernels', if known.
  ///
  ///   sent  as in Scheduler::record_read_back()
  void read_back(std::string_view operation, std::size_t target, std::uint64_t sent,
                 std::uint64_t bytes, std::optional<double> us);
  /// Records that the CPU took over from the decision's device, whose failure was recorded.
  void record_fallback(const TaskShape& task, const Decision& decision, const Error& error);
  /// The same for devices that could not be searched for or opened, and so have no target: `device`
  /// is their name in telemetry.
  void record_fallback(std::string_view operation, const std::string& device, const Error& error);

 private:
  Scheduler& scheduler_;
  const DeviceList& devices_;
  Recorder& recorder_;
};

}  // namespace topograd::runtime::hybrid
