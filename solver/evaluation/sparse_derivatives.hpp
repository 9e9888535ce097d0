// Sparse matrices of an Evaluator: Jacobian, JᵀJ and Hessian.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../evaluator.hpp"
#include "../linear/factor/normal_equations.hpp"
#include "evaluated_problem.hpp"

#include <cstdint>
#include <optional>

namespace topograd {

/// J at the engine's point, with an entry for every free scalar that a residual reads.
Evaluator::SparseMatrix sparse_jacobian(runtime::Engine& engine, const EvaluatedProblem& problem);

/// JᵀJ or the Hessian at an engine's point, both triangles. Patterns are kept until the problem
/// changes.
class SquareMatrices {
 public:
  explicit SquareMatrices(const EvaluatedProblem& problem) : problem_(problem) {}

  /// Brings the matrix to the engine's point.
  void refresh_jtj(runtime::Engine& engine);
  void refresh_hessian(runtime::Engine& engine, bool project_psd);
  /// The matrix that was refreshed last.
  Evaluator::SparseMatrix jtj() const { return both_triangles(*jtj_.lower); }
  Evaluator::SparseMatrix hessian() const { return both_triangles(*hessian_.lower); }

 private:
  struct Lower {
    std::optional<NormalEquations> lower;
    std::uint64_t revision = 0;  // of the problem
  };
  NormalEquations& current(Lower& matrix, bool with_energies);
  Evaluator::SparseMatrix both_triangles(const NormalEquations& lower) const;

  const EvaluatedProblem& problem_;
  Lower jtj_, hessian_;
};

}  // namespace topograd
