// Self-test of routing: does the hybrid executor send tasks to the side that is faster here?
#pragma once

#include "../../../runtime/hybrid/routing/scheduler.hpp"
#include "../../../solver/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::check {

struct RoutingOptions {
  /// automatic: the best device that is no software, unless TOPOGRAD_HYBRID_ADMIT_SOFTWARE admits
  /// it. vulkan: any, or Error. cpu: none.
  Backend backend = Backend::automatic;
  std::string device;   ///< index or name; empty as everywhere
  double seconds = 20;  ///< for measuring and for the traces together, > 0
  std::uint64_t seed = 1;
};

/// One kernel at one size: medians of runs that were sent to each side.
struct RoutingTruth {
  std::uint64_t operations = 0;  ///< an item
  std::uint64_t size = 0;
  double cpu_us = 0, device_us = 0;         ///< 0 where there is no device
  std::uint64_t on_cpu = 0, on_device = 0;  ///< of the trace
};

/// A piece of a program with arrays or tensors that nobody placed, from operands on the host to
/// results that it reads.
struct OperationTruth {
  std::string name;
  std::uint64_t size = 0;                   ///< elements, or rows of matrices
  double cpu_us = 0, device_us = 0;         ///< medians of runs that were sent to each side
  std::uint64_t on_cpu = 0, on_device = 0;  ///< of the trace
  double expected_cpu_us = 0, expected_device_us = 0;  ///< by the decisions: medians of the trace
};

/// A call of the trace that ran on the slower side.
struct WrongDecision {
  std::string name;  ///< "check", or of the piece
  std::uint64_t size = 0;
  std::uint64_t call = 0;  ///< number of the call among those of this kernel and size, from 0
  std::string reason;      ///< why it went there: of a chain, its first operation's
  bool on_device = false;
  double cpu_us = 0, device_us = 0;                    ///< truth
  double expected_cpu_us = 0, expected_device_us = 0;  ///< when it was decided; 0: not known
};

struct RoutingReport {
  std::string device;       ///< empty: none
  std::string note;         ///< why there is none
  std::uint64_t tasks = 0;  ///< of the trace
  /// That ran on the faster side, or where the two differ by under 10 %; nothing without tasks.
  std::optional<double> right_share;
  std::optional<double> time_over_oracle;  ///< measured on the same medians
  double decision_ns = 0;
  double median_task_us = 0;
  std::uint64_t explored = 0, wrong_results = 0;
  std::vector<RoutingTruth> truths;
  std::vector<OperationTruth> operations;  ///< of arrays and tensors; empty without a device
  std::optional<double> operations_right_share, operations_over_oracle;  ///< as those of tasks
  std::uint64_t operations_calls = 0, operations_explored = 0;           ///< as those of tasks
  std::vector<WrongDecision> wrong;                                      ///< of both traces
  runtime::hybrid::Knowledge learned;  ///< by the executor that decided

  /// Not both shares >= 0.95, both times over the oracle's <= 0.05 (where there were tasks),
  /// decision_ns <= 1 µs or 1 % of the median task, and no wrong result.
  bool broken() const;
};

/// Measures five kernels of 2 to 2,048 operations an item at sizes 10¹ to 10⁷ (as far as a run
/// takes 1/500 of the time) on both sides, in a random order, by medians of 5 to 101 runs; warms a
/// fresh executor up at the powers of ten; then lets it decide over a random trace of the other
/// sizes. In the other half of the time the same with operations of arrays and tensors, alone, in
/// chains and as steps of training, and with the executor of the process, which should not have
/// been used before.
///
/// Throws Error{NoDevice, ...} for backend vulkan without a device.
RoutingReport check_routing(const RoutingOptions& options);

}  // namespace topograd::check
