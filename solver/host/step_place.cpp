// Needs of steps, and who can meet them.
#include "step_place.hpp"

#include "../model/model.hpp"

#include <string_view>

namespace topograd {

HostNeeds host_needs(const Problem& problem) {
  return {.bounds = has_bounds(problem),
          .manifolds = problem.has_manifolds(),
          .host_residuals = !problem.host_blocks().empty()};
}

std::string text(const HostNeeds& needs) {
  std::string out;
  const auto add = [&](bool there, std::string_view what) {
    if (there) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  add(needs.bounds, "bounds");
  add(needs.manifolds, "manifolds");
  add(needs.host_residuals, "residuals on the host");
  add(needs.dogleg, "dogleg");
  add(needs.dense, "dense");
  return out;
}

bool device_moves_blocks(const HostNeeds& needs, const StepFacts& facts) {
  return !facts.energies && facts.device_manifolds && needs.are_only_manifolds();
}

StepPlace decide_step_place(const HostNeeds& needs, const StepFacts& facts, LinearSolver solver,
                            const std::function<LinearSolver()>& automatic) {
  if (facts.energies) return StepPlace::host;
  if (device_moves_blocks(needs, facts)) {
    if (facts.cpu_first || !facts.on_device) return StepPlace::host;
  } else if (!needs.are_only_bounds()) {
    return StepPlace::host;
  }
  if (solver == LinearSolver::pcg) return StepPlace::engine;
  if (solver != LinearSolver::automatic) return StepPlace::host;
  if (!facts.on_device) return StepPlace::host;  // a factor is better, and the host's
  return automatic() == LinearSolver::pcg ? StepPlace::engine : StepPlace::host;
}

}  // namespace topograd
