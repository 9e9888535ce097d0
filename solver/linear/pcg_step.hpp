// Steps by conjugate gradients on the engine.
#pragma once

#include "../../runtime/cpu/tiles/pool.hpp"
#include "../../runtime/model/model.hpp"
#include "step_solver.hpp"

#include <vector>

namespace topograd {

/// Conjugate gradients on the engine, for a model without bounds. Steps without damping, by which
/// the verdicts of a few unknowns are confirmed, are those of CholeskyStep where it knows the
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

}  // namespace topograd
