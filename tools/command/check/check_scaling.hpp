// The subcommand `check scaling`.
#pragma once

#include "../arguments/arguments.hpp"

#include "../../../frontend/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace topograd::command {

/// A problem whose scaling is measured and predicted.
struct ScaledProblem {
  std::string name;
  Problem* problem = nullptr;
  /// Borders of a part grow by this power of what is in it.
  double surface = 1;
};

/// Measures this machine, and predicts times of more ranks. All ranks make the same calls.
class ScalingMeter {
 public:
  virtual ~ScalingMeter() = default;
  /// True for the one process that prints and writes files.
  virtual bool speaks() const = 0;
  /// The report without its head: ranks, network, and a row for each problem.
  ///
  ///   most_ranks  of the predictions, a power of two
  ///   iterations  of conjugate gradients in a step
  virtual nlohmann::ordered_json measure(std::span<const ScaledProblem> problems, int most_ranks,
                                         int iterations) = 0;
};

/// Null in `topograd`, where `check scaling` runs topograd-distributed in its place. `meter`
/// outlives the command.
void set_scaling_meter(ScalingMeter* meter);

/// Adds itself to `check`.
void add_check_scaling(Command check);

}  // namespace topograd::command
