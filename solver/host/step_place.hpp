// Where the steps of a solve are made: by the engine, or on the host.
#pragma once

#include "../../frontend/problem.hpp"
#include "../options.hpp"

#include <functional>
#include <string>

namespace topograd {

/// What asks for steps on the host.
struct HostNeeds {
  bool bounds = false, manifolds = false, host_residuals = false;  ///< of the problem
  bool dogleg = false, dense = false;                              ///< of the options

  bool any() const { return *this != HostNeeds{}; }
  bool are_only_bounds() const { return *this == HostNeeds{.bounds = true}; }
  /// Manifolds, with bounds or without.
  bool are_only_manifolds() const {
    return *this == HostNeeds{.bounds = bounds, .manifolds = true};
  }
  bool operator==(const HostNeeds&) const = default;
};
/// Of the problem alone.
HostNeeds host_needs(const Problem& problem);
/// "bounds, manifolds"; empty for none.
std::string text(const HostNeeds& needs);

enum class StepPlace { engine, host };

struct StepFacts {
  bool energies = false;          ///< the method takes them
  bool device_manifolds = false;  ///< the model says how a device moves its blocks on manifolds
  bool on_device = false;         ///< where kernels run in the long run
  bool cpu_first = false;         ///< the interpreter serves while the device's kernels are made
};

/// Whether a device can move the blocks on their manifolds, and within a box that leaves these
/// alone.
bool device_moves_blocks(const HostNeeds& needs, const StepFacts& facts);

/// Engines know bounds, and devices manifolds, where they solve for the step, which is by conjugate
/// gradients.
///
///   solver     that was asked for
///   automatic  what LinearSolver::automatic gives there; called only where it decides
StepPlace decide_step_place(const HostNeeds& needs, const StepFacts& facts, LinearSolver solver,
                            const std::function<LinearSolver()>& automatic);

}  // namespace topograd
