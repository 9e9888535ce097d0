// Steps by direct solvers on the host: a factor, a Schur complement, or QR of the Jacobian.
#pragma once

#include "../../runtime/model/model.hpp"
#include "factor/elimination.hpp"
#include "factor/factorization.hpp"
#include "step_solver.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// A note about pivots that vanished in a solve; empty if there were none.
std::string vanished_pivots_note(std::uint64_t count);

/// Factorises JᵀJ + λD, directly or by the Schur complement of blocks that do not meet
/// (factorization.hpp). Works with either engine and reads Jacobian and gradient of each linearised
/// point once. If a factor of the smallest problems (kLargestReadBack) is not positive definite in
/// working precision, that step and the later ones of the solve use a QR decomposition of the
/// Jacobian; a step without damping (λ = 0) does so for itself alone. In other problems, pivots
/// that vanish take no part (PivotRule), which note() tells.
class DirectStep final : public StepSolver {
 public:
  /// Finds pattern, ordering and elimination tree.
  ///
  ///   kind     cholesky, schur, or automatic: schur if elimination pays
  ///   work     threads of the elimination, and bits of factors
  ///   hint     blocks that schur eliminates
  ///   limits   for schur by conjugate gradients; without them schur factorises
  ///   found    result of find_elimination() for the hint, if it was called
  ///   factor   of cholesky: as make_sparse_factorization() takes it
  ///
  /// Throws Error{Unsupported} as NormalEquations does, and the errors of find_elimination().
  explicit DirectStep(const runtime::Model& model, LinearSolver kind = LinearSolver::cholesky,
                      const runtime::cpu::CpuWork& work = {}, const EliminationHint& hint = {},
                      const std::optional<SchurIteration>& limits = {},
                      std::optional<Elimination> found = {},
                      FactorPlace factor = FactorPlace::automatic);
  ~DirectStep() override;

  /// Most unknowns for which a QR of the Jacobian serves where a factor has too few digits.
  static std::uint64_t most_by_rows(const runtime::Model& model);
  /// True if residuals() are the rows of the cost: then steps by a factor of schur are corrected.
  static bool has_rows_of_cost(const runtime::Model& model);
  std::uint64_t most_undamped(const runtime::Engine& engine) const override;
  bool knows_columns(const runtime::Engine& /*engine*/) const override { return true; }
  std::vector<double> column_squares(runtime::Engine& engine) override;

  /// Like those of Factorization.
  double factor_entries() const;
  double factor_flops() const;

  LinearSolver kind() const override;
  std::string note() const override;
  std::vector<runtime::Need> needs() const override;
  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  /// model_decrease is NaN if the matrix is not positive definite.
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
