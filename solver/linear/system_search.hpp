// Facts about a linear system for the decision, found on request, and construction of its solver.
#pragma once

#include "../../runtime/model/model.hpp"
#include "../plan/decide.hpp"
#include "direct_step.hpp"
#include "factor/elimination.hpp"
#include "factor/factorization.hpp"
#include "step_solver.hpp"

#include <memory>
#include <optional>
#include <span>

namespace topograd {

/// Stopping rule of schur on the CPU; set if the options name a preconditioner, which selects CG.
std::optional<SchurIteration> schur_iteration(const SolverOptions& options);

/// Threads of the CPU that the options allow.
int threads_of(const SolverOptions& options);
/// How the host computes.
inline runtime::cpu::CpuWork work_of(const SolverOptions& options) {
  return {options.threads, options.bits};
}

/// Examines a model only as far as decide() requests, and keeps the results for the solver.
class SystemSearch {
 public:
  ///   engine  the one that will take the steps; a device receives the elimination
  ///   hint    blocks that schur eliminates
  ///   x       the start, to which the engine is moved where derivatives are looked at
  ///   penalties  the model has those of constraints
  ///
  /// All must outlive it; the model must outlive the solver, too.
  SystemSearch(const runtime::Model& model, const SolverOptions& options, runtime::Engine& engine,
               const EliminationHint& hint, std::span<const double> x, bool penalties)
      : model_(model),
        options_(options),
        engine_(engine),
        hint_(hint),
        x_(x),
        penalties_(penalties) {}

  /// Returns the facts that cost little.
  SystemFacts facts() const;
  /// Adds one of the other facts. Throws the errors of find_elimination().
  void find(Fact fact, SystemFacts& facts);
  /// Throws Error{Unsupported} if a forced cholesky cannot hold the problem.
  std::unique_ptr<StepSolver> make(const LinearChoice& choice);

 private:
  const runtime::Model& model_;
  const SolverOptions& options_;
  runtime::Engine& engine_;
  const EliminationHint& hint_;
  std::span<const double> x_;
  bool penalties_;
  std::optional<Elimination> elimination_;
  std::unique_ptr<DirectStep> factor_;
};

}  // namespace topograd
