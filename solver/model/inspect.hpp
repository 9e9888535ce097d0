// Optional checks of a solve: operands outside their domains, and comparison with the CPU.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "model.hpp"

#include <span>
#include <string>

namespace topograd {

/// Checks for SolverOptions::domain = strict and cross_check; does nothing without them.
class Inspector {
 public:
  /// All three must outlive the Inspector.
  Inspector(const SolverOptions& options, const ProblemModel& model, Summary& summary)
      : options_(options), model_(model), summary_(summary) {}

  /// Strict: throws Error{InvalidArgument} that names residual, op and operands of the first domain
  /// error at x, in the order of topologies and instances, in the precision of the engine's
  /// kernels. Cost: one kernel per topology, and a readback of its results.
  ///
  ///   where  for the message, e.g. "at the start"
  void check_domains(const runtime::Engine& engine, std::span<const double> x,
                     const char* where) const;
  void check_point(runtime::Engine& engine, const char* where) const;
  /// True if check_trial() does something.
  bool looks_at_trials() const { return options_.domain == DomainPolicy::strict; }
  /// The same check at the trial point of the last try_step().
  void check_trial(runtime::Engine& engine) const;

  /// Compares residuals and Jacobians of the chosen instances at the engine's point with the
  /// interpreter; if all instances are chosen, also the gradient and a product with JᵀJ. Records
  /// differences beyond the running error bounds of the kernels in the summary. Cost: a running
  /// error bound for each chosen instance.
  void cross_check(runtime::Engine& engine);

 private:
  const SolverOptions& options_;
  const ProblemModel& model_;
  Summary& summary_;
};

/// DomainPolicy::guarded: replaces the terms' topologies by ir::guard_domains() of them.
void guard_domains(ProblemModel& model, double epsilon);

}  // namespace topograd
