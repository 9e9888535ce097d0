// Self-test of routing: checks that the hybrid executor runs tasks where they are faster.
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct RoutingOptions {
  /// automatic: the best hardware device, or a software device if TOPOGRAD_HYBRID_ADMIT_SOFTWARE is
  /// set. vulkan: any device, or Error. cpu: none.
  Backend backend = Backend::automatic;
  std::string device;   ///< index or name; may be empty
  double seconds = 20;  ///< total time of measurements and traces, > 0
  std::uint64_t seed = 1;
};

/// One kernel at one size: medians of runs that were forced to each backend.
struct RoutingTruth {
  std::uint64_t operations = 0;  ///< per item
  std::uint64_t size = 0;
  double cpu_us = 0, device_us = 0;         ///< 0 without a device
  std::uint64_t on_cpu = 0, on_device = 0;  ///< of the trace
};

/// Array or tensor operations without a fixed backend, from host operands to results on the host.
struct OperationTruth {
  std::string name;
  std::uint64_t size = 0;                              ///< elements, or rows of matrices
  double cpu_us = 0, device_us = 0;                    ///< medians of runs forced to each backend
  std::uint64_t on_cpu = 0, on_device = 0;             ///< of the trace
  double expected_cpu_us = 0, expected_device_us = 0;  ///< predictions: medians of the trace
};

/// A call of the trace that ran on the slower backend.
struct WrongDecision {
  std::string name;  ///< "check", or the name of the operations
  std::uint64_t size = 0;
  std::uint64_t call = 0;  ///< number of the call, from 0, for this kernel and size
  std::string reason;      ///< reason for the choice; for a chain, that of its first operation
  bool on_device = false;
  double cpu_us = 0, device_us = 0;                    ///< measured medians
  double expected_cpu_us = 0, expected_device_us = 0;  ///< predictions at the decision; 0: unknown
};

/// Tasks on two simulated devices of known speed, the second time or later.
struct ScheduleTruth {
  std::string what;
  double us = 0, best_us = 0;                       ///< measured, and of the best schedule
  std::uint64_t first_items = 0, second_items = 0;  ///< of all runs

  double over_best() const { return us / best_us - 1; }
};

struct RoutingReport {
  std::string device;       ///< empty: none
  std::string note;         ///< reason if there is none
  std::uint64_t tasks = 0;  ///< of the trace
  /// Fraction on the faster backend, or with a difference of less than 10 %; empty without tasks.
  std::optional<double> right_share;
  std::optional<double> time_over_oracle;  ///< computed from the same medians
  double decision_ns = 0;
  double median_task_us = 0;
  std::uint64_t explored = 0, wrong_results = 0;
  std::vector<RoutingTruth> truths;
  std::vector<OperationTruth> operations;  ///< arrays and tensors; empty without a device
  std::optional<double> operations_right_share, operations_over_oracle;  ///< like those of tasks
  std::uint64_t operations_calls = 0, operations_explored = 0;           ///< like those of tasks
  std::vector<ScheduleTruth> schedules;                                  ///< of two devices
  std::vector<WrongDecision> wrong;                                      ///< in both traces
  runtime::hybrid::Knowledge learned;  ///< by the executor that decided

  /// True unless both fractions are >= 0.95, both times over the oracle's are <= 0.05 (if there
  /// were tasks), decision_ns is at most 1 µs or 1 % of the median task, no result is wrong, and
  /// every schedule takes at most 1.15 of the best one.
  bool broken() const;
};

/// Warms up an executor with five kernels of 2 to 2,048 operations per item at the powers of ten up
/// to 10⁷ items, and lets it decide over a random trace of these and the sizes between them. After
/// every second decision, one kernel and size is measured on both backends without teaching the
/// executor; medians of at least five measurements tell which backend was faster. The second half
/// of the time is for array and tensor operations, alone, in chains and as training steps, with the
/// executor of the process, which should not have been used before. Finally lists and submitted
/// tasks run on two simulated devices, equal ones and different ones, without warming up.
///
/// Throws Error{NoDevice, ...} for backend vulkan without a device.
RoutingReport check_routing(const RoutingOptions& options);

}  // namespace topograd::check
