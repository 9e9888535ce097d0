// Refuses methods by name.
#include "method_checks.hpp"

#include "../../ir/error.hpp"
#include "../host/tangent_space.hpp"
#include "../model/host_terms.hpp"
#include "../model/model.hpp"

#include <string>

namespace topograd {
namespace {

void refuse_energies(const Problem& problem, Method method) {
  if (takes_energies(method)) return;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    if (!problem.is_energy(t) || problem.batch(t).size() == 0) continue;
    std::string label(problem.label(t));
    if (label.empty()) label = "energy" + std::to_string(t);
    throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) +
                                            " minimises sums of squares, the energy \"" + label +
                                            "\" is none; use lbfgs, newton, adam, adamw or sgd");
  }
}

void refuse_constraints(const Problem& problem, Method method) {
  if (problem.constraint_count() == 0) return;
  throw Error(ErrorCode::Unsupported,
              "solve: " + std::string(name(method)) + " knows no constraints, the problem has " +
                  std::to_string(problem.constraint_count()) +
                  "; use augmented_lagrangian, or barrier from a start inside of them");
}

/// Newton's method asks for what opaque code does not tell.
void refuse_host_blocks(const Problem& problem, Method method) {
  if (method != Method::newton || problem.host_blocks().empty()) return;
  throw Error(ErrorCode::Unsupported,
              "solve: newton takes second derivatives, " + host_name(problem, 0) +
                  " has none; use levenberg_marquardt, lbfgs, adam, adamw or sgd");
}

}  // namespace

Method chosen_method(const Problem& problem) {
  if (problem.constraint_count() > 0) return Method::augmented_lagrangian;
  return problem.energy_count() > 0 ? Method::lbfgs : Method::levenberg_marquardt;
}

void check_method(const Problem& problem, Method method, bool constrained) {
  if (!constrained) refuse_constraints(problem, method);
  refuse_energies(problem, method);
  refuse_host_blocks(problem, method);
}

void check_bounds_and_manifolds(const Problem& problem, Method method, std::span<const double> x) {
  const bool bounded = has_bounds(problem);
  if (!bounded && !problem.has_manifolds()) return;
  const TangentSpace space(problem);
  const bool curved = !space.blocks().empty();
  if (bounded) space.check_bounds("solve", x);
  const bool lbfgs = method == Method::lbfgs;
  const bool knows_bounds = lbfgs || method == Method::newton;
  const bool refuses_bounds = bounded && (!knows_bounds || curved);
  if (!refuses_bounds && (!curved || lbfgs)) return;
  std::string others =
      problem.energy_count() > 0 ? "" : "levenberg_marquardt, gauss_newton, dogleg";
  if (!(bounded && curved)) others += (others.empty() ? "" : ", ") + std::string("lbfgs");
  if (!curved) others += ", newton";
  throw Error(ErrorCode::Unsupported, "solve: " + std::string(name(method)) + " knows no " +
                                          (!refuses_bounds ? "manifolds"
                                           : curved        ? "bounds beside manifolds"
                                                           : "bounds") +
                                          (others.empty() ? "" : "; expected one of " + others));
}

}  // namespace topograd
