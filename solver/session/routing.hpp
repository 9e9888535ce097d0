// Chooses the backend of a solve or an Evaluator: asks this process's executor, reports measured
// times to it, and repeats the work on the CPU if a chosen device fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "../../ir/error.hpp"
#include "../../runtime/engine/engine_stats.hpp"
#include "../executor.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"

namespace topograd {

/// True if work that failed with this error may be done again on the CPU: a device has failed that
/// `automatic` had chosen. Reports the failure to the executor.
///
///   operation  as for open_session()
bool may_leave_device(const SolverOptions& options, const char* operation, const Error& error);

/// Does work with options that have a member `solver`, and once more on the CPU if
/// may_leave_device().
template <class Options, class Work>
auto here_or_on_cpu(Options options, const char* operation, const Work& work) {
  try {
    return work(options);
  } catch (const Error& error) {
    if (!may_leave_device(options.solver, operation, error)) throw;
  }
  options.solver.backend = Backend::cpu;
  return work(options);
}

/// True if the options or TOPOGRAD_DEVICE name a device.
bool names_device(const SolverOptions& options);

/// The backend of one Solver or Evaluator as the process's executor decides it, and how it went
/// there. Never used after the model's topologies have changed. One thread.
class Route {
 public:
  /// `operation` for thresholds and statistics: a literal.
  Route(const ProblemModel& model, const SolverOptions& options, const char* operation);
  ~Route();
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;

  /// The device that was looked at.
  void consider(const DeviceFacts& facts);
  /// The scheduler's choice: the CPU where measurements or the circuit breaker say so.
  ///
  ///   named      software may be chosen
  ///   on_device  the rules allow the device; else it is asked for the record alone
  const runtime::hybrid::Decision& ask(bool named, bool on_device);
  /// The choice was not the scheduler's; the task is a part of the load all the same.
  void follow(bool on_device);

  /// The device failed; the CPU takes over if `automatic` chose it.
  void failed(const Error& failure);
  /// Learns the median time of outer steps, without the first one, which brings tables and buffers.
  /// At least three are needed. Reorders them.
  void measured_steps(bool on_device, std::span<double> step_seconds);
  /// Median time of one kind of evaluations. The slowest kind that was measured on both backends
  /// decides for later Evaluators.
  void measured(runtime::Pass pass, bool on_device, double us);
  /// A solve, or an Evaluator's life, has ended well: one task, for counters, trace and observer.
  ///
  ///   on_device  where it really ran, or ended
  ///   seconds    on the clock
  ///   counts     of all of it: traffic and kernels that were there already
  void ended(bool on_device, double seconds, const runtime::EngineCounts& counts);

 private:
  runtime::hybrid::TaskShape shape() const;
  runtime::hybrid::TaskShape shape(runtime::Pass pass) const;
  runtime::hybrid::TaskShape decisive_shape() const;
  void learn(const runtime::hybrid::TaskShape& task, std::size_t target,
             const runtime::hybrid::Outcome& outcome);
  std::size_t target_of(const DeviceFacts& facts) const;
  runtime::hybrid::Decision unasked(bool on_device) const;
  void drop_decision();

  // Alive for as long as anything has a backend, also where that is static and destroyed late.
  const std::shared_ptr<runtime::hybrid::Executor> executor_;
  const SolverOptions& options_;
  const char* operation_;
  ir::Hash128 kernel_;
  std::uint64_t instances_ = 0;
  std::uint64_t bytes_ = 0;  // of memory on a device, about
  runtime::hybrid::Features features_;
  std::size_t device_ = runtime::hybrid::kCpu;  // target of the device that was looked at
  std::string device_name_ = "vulkan";
  runtime::hybrid::Decision made_;                     // as it was made, or forced
  std::optional<runtime::hybrid::Decision> decision_;  // of the scheduler, until it is answered
  bool judged_ = false;                                // since the last end
};

}  // namespace topograd
