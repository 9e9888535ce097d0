// Steps that the engine solves for: by conjugate gradients, a sparse factor, or a Schur complement.
#pragma once

#include "../../runtime/cpu/tiles/pool.hpp"
#include "../../runtime/engine/step_elimination.hpp"
#include "../../runtime/model/model.hpp"
#include "direct_step.hpp"
#include "factor/elimination.hpp"
#include "factor/factorization.hpp"
#include "step_solver.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

/// Conjugate gradients on the engine, for a model without bounds. Steps without damping, by which
/// the verdicts of a few unknowns are confirmed, are those of DirectStep where it knows the
/// model: the iterations lose the digits of columns that are nearly dependent.
class PcgStep final : public StepSolver {
 public:
  /// The model must outlive it.
  ///
  ///   work  of the factor
  explicit PcgStep(const runtime::Model& model, ForcingSequence forcing = ForcingSequence::constant,
                   const runtime::cpu::CpuWork& work = {})
      : model_(model), forcing_(forcing), work_(work) {}

  LinearSolver kind() const override { return LinearSolver::pcg; }
  ForcingSequence forcing() const override { return forcing_; }
  void linearized(runtime::Engine&, runtime::PointReport& point) override { point_ = point; }
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;
  /// They are known where steps without damping are.
  bool knows_columns(const runtime::Engine& engine) const override;
  std::vector<double> column_squares(runtime::Engine& engine) override;
  /// 0 on a device, where the kernels of the Jacobian would be compiled for it.
  std::uint64_t most_undamped(const runtime::Engine& engine) const override;

 private:
  const runtime::Model& model_;
  ForcingSequence forcing_;
  runtime::cpu::CpuWork work_;
  runtime::PointReport point_;
};

/// A factor on a device, which the engine was asked for. While the interpreter is in use, or where
/// branches changed the problem so that the device cannot, a factor on the host takes its place
/// (direct_step.hpp), or within bounds and on manifolds, which that one does not know, the engine's
/// conjugate gradients.
class FactorStep final : public StepSolver {
 public:
  ///   work  of the host
  FactorStep(const runtime::Model& model, const runtime::cpu::CpuWork& work)
      : model_(model), work_(work), revision_(model.revision) {}

  LinearSolver kind() const override { return LinearSolver::cholesky; }
  std::string note() const override;
  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  bool knows_columns(const runtime::Engine& engine) const override { return by_host(engine); }
  std::vector<double> column_squares(runtime::Engine& engine) override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;
  /// Not under bounds: the projection has already found the length.
  bool can_rescale(runtime::Engine& engine) const override {
    return !bounded() && StepSolver::can_rescale(engine);
  }

 private:
  bool bounded() const { return !model_.lower.empty(); }
  bool by_host(const runtime::Engine& engine) const;
  DirectStep& host();

  const runtime::Model& model_;
  runtime::cpu::CpuWork work_;
  std::uint64_t revision_;
  bool possible_ = true;              // on the device
  double cost_ = 0;                   // at the point
  std::uint64_t vanished_ = 0;        // pivots, in this solve
  std::unique_ptr<DirectStep> host_;  // made on first use
};

/// Steps by the Schur complement, by conjugate gradients or its factor: on a device, or on the host
/// (direct_step.hpp) while the interpreter is in use, or where branches changed the problem so that
/// the device cannot.
class SchurStep final : public StepSolver {
 public:
  /// The engine has eliminated the blocks of find_elimination(model, hint).
  ///
  ///   work    of the host
  ///   limits  of conjugate gradients on the host; without them the host factorises
  SchurStep(const runtime::Model& model, const runtime::cpu::CpuWork& work, EliminationHint hint,
            const std::optional<SchurIteration>& limits)
      : model_(model),
        hint_(std::move(hint)),
        work_(work),
        limits_(limits),
        revision_(model.revision) {}

  LinearSolver kind() const override { return LinearSolver::schur; }
  void begin_solve() override;
  void transfer(ir::StateRecord& record) override;
  bool knows_columns(const runtime::Engine& engine) const override { return by_host(engine); }
  std::vector<double> column_squares(runtime::Engine& engine) override;
  void linearized(runtime::Engine& engine, runtime::PointReport& point) override;
  runtime::StepReport try_step(runtime::Engine& engine,
                               const runtime::StepRequest& request) override;

 private:
  bool by_host(const runtime::Engine& engine) const {
    return !possible_ || engine.backend() == runtime::Backend::cpu;
  }
  DirectStep& host();

  const runtime::Model& model_;
  EliminationHint hint_;
  runtime::cpu::CpuWork work_;
  std::optional<SchurIteration> limits_;
  std::uint64_t revision_;
  bool possible_ = true;              // on the device
  std::unique_ptr<DirectStep> host_;  // made on first use
};

/// By scalar of the model: 1 = of an eliminated block, free or fixed.
std::vector<std::uint8_t> eliminated_scalars(const runtime::Model& model,
                                             const Elimination& elimination);

}  // namespace topograd
