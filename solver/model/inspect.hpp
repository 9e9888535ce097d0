// What a solve looks at beside its work: operands outside of domains, and the CPU's answers.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "model.hpp"

#include <span>
#include <string>

namespace topograd {

/// Runs what SolverOptions::domain = strict and SolverOptions::cross_check ask for; does nothing
/// without them.
class Inspector {
 public:
  /// All three outlive the Inspector.
  Inspector(const SolverOptions& options, const ProblemModel& model, Summary& summary)
      : options_(options), model_(model), summary_(summary) {}

  /// Strict: throws Error{InvalidArgument} that names residual, op and operands of the first domain
  /// error at x, in the order of topologies and instances, as the kernels of the engine's backend
  /// see it. Cost: one kernel a topology, and its results read back.
  ///
  ///   where  for the message, e.g. "at the start"
  void check_domains(const runtime::Engine& engine, std::span<const double> x,
                     const char* where) const;
  void check_point(runtime::Engine& engine, const char* where) const;
  /// check_trial() does something.
  bool looks_at_trials() const { return options_.domain == DomainPolicy::strict; }
  /// The same at the trial point of the last try_step().
  void check_trial(runtime::Engine& engine) const;

  /// Cross-check: residuals and Jacobians of the chosen instances at the engine's point, and with
  /// all of them the gradient and a product with JᵀJ, against the interpreter. Differences beyond
  /// the running error bounds of the kernels go to the summary. Cost: a running error bound for
  /// each chosen instance.
  void cross_check(runtime::Engine& engine);

 private:
  const SolverOptions& options_;
  const ProblemModel& model_;
  Summary& summary_;
};

/// DomainPolicy::guarded: the terms' topologies with ir::guard_domains() instead.
void guard_domains(ProblemModel& model, double epsilon);

}  // namespace topograd
