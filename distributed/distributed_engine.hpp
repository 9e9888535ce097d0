// The engine of a model whose parts are on several ranks, and its steps.
#pragma once

#include "../runtime/engine/engine.hpp"
#include "communicator.hpp"
#include "local_model.hpp"
#include "rank_part.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::distributed {

/// Steps of the whole model by the engines of all parts. linearize(), try_step() by conjugate
/// gradients and accept() exchange ghosts and sums by chunk alone; points and steps are joined.
/// They go on if a device fails.
class DistributedSteps final : public runtime::DampedSteps,
                               public runtime::StepLengths,
                               public runtime::LastStep {
 public:
  ///   calls  outlive the steps
  explicit DistributedSteps(RankCalls& calls) : calls_(calls) {}

  void begin_solve() override;
  /// The state of the whole: the bytes do not depend on the division.
  void transfer(ir::StateRecord& record) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override;
  runtime::PreconditionerUse preconditioner() const override;
  runtime::NormalMatrixUse normal_matrix() const override;

  runtime::StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override;

 private:
  template <class Step>
  runtime::StepReport step(const Step& step);
  void restore(ir::StateRecord& record);
  void keep_scaling();

  RankCalls& calls_;
};

/// An engine of the whole model whose rank evaluates the residuals of its own blocks, on its CPU or
/// its device. All ranks make the same calls and get the same results, with the same bits for any
/// number of ranks: on CPUs those of the CPU's engine with EngineOptions::deterministic.
///
/// cost() exchanges ghosts and sums by chunk alone. Points, gradients, rows and Jacobians are
/// joined on all ranks.
///
/// A rank whose device fails moves to its CPU, and all go on from the last point: the bits are then
/// those of ranks on both. Another exception on a rank ends all ranks (Communicator::fail()).
class DistributedEngine final : public runtime::Engine,
                                public runtime::SecondDerivatives,
                                public runtime::Guards,
                                public runtime::KnownPoint {
 public:
  ///   ranks         outlives the engine
  ///   petsc_krylov  PETSc's KSP solves for steps, on CPUs
  ///   shares        null: every rank has the whole model; else outlives the engine, which then
  ///                 gives no Jacobians
  DistributedEngine(const Communicator& ranks, const runtime::Model& model,
                    const runtime::EngineOptions& options, PartitionMethod method,
                    RankDevice device = {}, bool petsc_krylov = false,
                    const Shares* shares = nullptr);

  RankReport report() const { return part().report(); }
  const Traffic& traffic() const { return part().traffic(); }

  runtime::Abilities abilities() override;
  runtime::Backend backend() const override { return inner().backend(); }
  std::string device() const override;
  runtime::EngineStats stats() const override { return part().stats(); }
  std::unique_ptr<runtime::RowRunner> row_runner() const override;
  void refresh(const runtime::Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override;
  double cost() override;
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override;

  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  std::uint64_t failed_guards() override;
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override;
  double trial_cost() override;

  bool last_known_point(std::span<double> x) override;

 private:
  RankPart& part() const { return calls_.part(); }
  runtime::Engine& inner() const { return part().engine(); }
  void build(const runtime::Model& model);
  /// A number that is the same on all ranks. f() is collective.
  double number(const std::function<double()>& f);

  const Communicator& ranks_;
  runtime::EngineOptions options_;
  PartitionMethod method_;
  RankDevice device_;
  const Shares* shares_;
  std::vector<std::uint64_t> structure_;  // versions of the batches that the part was cut from
  RankCalls calls_;
  DistributedSteps steps_{calls_};
};

}  // namespace topograd::distributed
