// Steps by a Schur complement that is made and solved where the data are.
#pragma once

#include "../../runtime/engine/elimination.hpp"
#include "../../runtime/model/model.hpp"
#include "cholesky.hpp"
#include "elimination.hpp"
#include "factorization.hpp"
#include "step_solver.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// Conjugate gradients on the Schur complement, on a device; while the interpreter serves, a factor
/// of it on the host (cholesky.hpp), or conjugate gradients there, too.
class SchurStep final : public StepSolver {
 public:
  ///   elimination  as find_elimination() gave it
  ///   threads      of the host, 0 = all
  ///   hint         that it was found by
  ///   limits       of conjugate gradients on the host; none: it factors
  SchurStep(const runtime::Model& model, Elimination elimination, int threads, EliminationHint hint,
            const std::optional<SchurIteration>& limits);

  LinearSolver kind() const override { return LinearSolver::schur; }
  void begin_solve() override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;

 private:
  const runtime::Model& model_;
  Elimination elimination_;
  EliminationHint hint_;
  int threads_;
  std::optional<SchurIteration> limits_;
  std::uint64_t revision_;
  std::unique_ptr<CholeskyStep> host_;  // made when first needed
};

/// By scalar of the model: 1 = of a block that is eliminated, whether it is free or not.
std::vector<std::uint8_t> eliminated_scalars(const runtime::Model& model,
                                             const Elimination& elimination);

}  // namespace topograd
