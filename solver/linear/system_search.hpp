// Facts about a linear system, as the decision asks for them, and what solves it.
#pragma once

#include "../../runtime/model/model.hpp"
#include "../plan/decide.hpp"
#include "cholesky.hpp"
#include "elimination.hpp"
#include "factorization.hpp"
#include "step_solver.hpp"

#include <memory>
#include <optional>

namespace topograd {

/// Of schur on the CPU: set where conjugate gradients are asked for by their preconditioner.
std::optional<SchurIteration> schur_iteration(const SolverOptions& options);

/// Looks at a model only as far as decide() asks, and keeps what it found for the solver.
class SystemSearch {
 public:
  ///   engine  that will take the steps; a device is told what to eliminate
  ///   hint    what schur eliminates
  ///
  /// All outlive it; the model outlives the solver, too.
  SystemSearch(const runtime::Model& model, const SolverOptions& options, runtime::Engine& engine,
               const EliminationHint& hint)
      : model_(model), options_(options), engine_(engine), hint_(hint) {}

  /// Those that cost little.
  SystemFacts facts() const;
  /// Adds one of the others. Throws what find_elimination() throws.
  void find(Fact fact, SystemFacts& facts);
  /// Throws Error{Unsupported} if a forced cholesky cannot hold the problem.
  std::unique_ptr<StepSolver> make(const LinearChoice& choice);

 private:
  const runtime::Model& model_;
  const SolverOptions& options_;
  runtime::Engine& engine_;
  const EliminationHint& hint_;
  std::optional<Elimination> elimination_;
  std::unique_ptr<CholeskyStep> factor_;
};

}  // namespace topograd
