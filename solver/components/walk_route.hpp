// Chooses where the components of a solver are solved for, by the facts of the machine and by what
// the executor of the process has learned, and tells it how long a solve took.
#pragma once

#include "../executor.hpp"
#include "../summary.hpp"
#include "device_walk.hpp"
#include "walk_choice.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// Decides before each solve whether components walk on a device. One thread.
class WalkRoute {
 public:
  /// Both outlive it. Only counts of the groups may change.
  ///
  ///   options      resolved
  ///   host_checks  the host gives the verdicts of components that walk
  WalkRoute(const ComponentGroups& groups, const SolverOptions& options, bool host_checks);

  /// The device for the next solve, or null: the CPU. It is looked for once.
  ///
  /// Throws the device's error if the options ask for one and there is none.
  const WalkDevice* decide();
  /// Why not all components walk on the device that was found; empty: they do.
  std::string obstacle() const;

  /// True if the CPU takes over: the device failed that was chosen, not asked for.
  bool take_over(const Error& failure);
  /// A solve has ended where it was decided.
  ///
  ///   cold  the device's kernels were made for it
  void ended(double seconds, bool cold);

  /// Adds the reason for the choice, and the time of the look for a device.
  void describe(Summary& summary) const;

 private:
  void look();
  void ask_executor();
  runtime::hybrid::TaskShape task() const;

  const ComponentGroups& groups_;
  const SolverOptions& options_;
  WalkFacts facts_;
  WalkChoice choice_;
  std::vector<std::uint64_t> blocks_;  // of one component, by group
  ir::Hash128 kernel_;
  std::optional<WalkDevice> device_;
  std::size_t target_ = runtime::hybrid::kCpu;  // of the executor
  std::string problem_;
  double search_seconds_ = 0;
};

}  // namespace topograd
