// Steps by a Schur complement that the engine forms and solves.
#pragma once

#include "../../runtime/engine/elimination.hpp"
#include "../../runtime/model/model.hpp"
#include "cholesky.hpp"
#include "factor/elimination.hpp"
#include "factor/factorization.hpp"
#include "step_solver.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// Conjugate gradients on the Schur complement on a device; while the interpreter is in use, a
/// factor of it on the host (cholesky.hpp), or conjugate gradients there.
class SchurStep final : public StepSolver {
 public:
  ///   elimination  from find_elimination()
  ///   work         of the host
  ///   hint         with which it was found
  ///   limits       of conjugate gradients on the host; without them the host factorises
  SchurStep(const runtime::Model& model, Elimination elimination, const runtime::cpu::CpuWork& work,
            EliminationHint hint, const std::optional<SchurIteration>& limits);

  LinearSolver kind() const override { return LinearSolver::schur; }
  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  bool knows_columns(const runtime::Engine& engine) const override {
    return engine.backend() == runtime::Backend::cpu;
  }
  std::vector<double> column_squares(runtime::Engine& engine) override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;

 private:
  const runtime::Model& model_;
  Elimination elimination_;
  EliminationHint hint_;
  runtime::cpu::CpuWork work_;
  std::optional<SchurIteration> limits_;
  std::uint64_t revision_;
  CholeskyStep& host();

  std::unique_ptr<CholeskyStep> host_;  // made on first use
};

/// By scalar of the model: 1 = of an eliminated block, free or fixed.
std::vector<std::uint8_t> eliminated_scalars(const runtime::Model& model,
                                             const Elimination& elimination);

}  // namespace topograd
