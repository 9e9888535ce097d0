// The engine of a solve on several processes.
#pragma once

#include "communicator.hpp"
#include "halo.hpp"
#include "local_model.hpp"
#include "partition.hpp"

#include "../runtime/engine/engine.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::distributed {

/// Figures of one rank, for reports.
struct RankReport {
  std::uint64_t blocks = 0, ghosts = 0;   ///< parameter blocks owned, and copies of others'
  std::uint64_t residuals = 0;            ///< residual blocks evaluated
  std::uint64_t residuals_again = 0;      ///< of these, also evaluated by the rank that counts them
  std::uint64_t bytes_per_iteration = 0;  ///< received in an iteration of CG
  std::uint64_t messages_per_iteration = 0;  ///< received in one for ghosts
  std::uint64_t exchanges = 0;               ///< of ghosts, in the solve
  double waited_seconds = 0;                 ///< in exchanges
};

/// An engine of the whole model whose rank evaluates the residuals of its own blocks on the CPU.
/// All ranks make the same calls and get the same results, with the same bits for any number of
/// ranks: those of the CPU's engine with EngineOptions::deterministic.
///
/// linearize(), try_step() by conjugate gradients, cost and accept() exchange ghosts and sums by
/// chunk alone. Points, gradients, rows and Jacobians are gathered on all ranks.
///
/// An exception on a rank ends all ranks (Communicator::fail()).
class DistributedEngine final : public runtime::Engine,
                                public runtime::DampedSteps,
                                public runtime::StepLengths,
                                public runtime::LastStep,
                                public runtime::SecondDerivatives,
                                public runtime::Guards,
                                public runtime::KnownPoint {
 public:
  ///   ranks         outlives the engine
  ///   petsc_krylov  PETSc's KSP solves for steps
  DistributedEngine(const Communicator& ranks, const runtime::Model& model,
                    const runtime::EngineOptions& options, PartitionMethod method,
                    bool petsc_krylov = false);

  RankReport report() const;

  runtime::Abilities abilities() override;
  runtime::Backend backend() const override { return inner_->backend(); }
  std::string device() const override;
  runtime::EngineStats stats() const override { return inner_->stats(); }
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

  void begin_solve() override { steps().begin_solve(); }
  /// The state of the whole: the bytes do not depend on the division.
  void transfer(ir::StateRecord& record) override;
  runtime::PointReport linearize() override;
  runtime::StepReport try_step(const runtime::StepRequest& request) override;
  runtime::StepReport try_step(std::span<const double> delta) override;
  void trial_point(std::span<double> x) override;
  void accept() override { steps().accept(); }
  runtime::PreconditionerUse preconditioner() const override;
  runtime::NormalMatrixUse normal_matrix() const override;

  runtime::StepReport rescale_step(double length) override;
  void last_step(std::span<double> delta) override;

  void hvp(std::span<const double> p, std::span<double> out) override;
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  std::uint64_t failed_guards() override;
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override;
  double trial_cost() override;

  bool last_known_point(std::span<double> x) override;

 private:
  class JoinedLists;

  runtime::DampedSteps& steps() const { return *inner_->abilities().steps; }
  void build(const runtime::Model& model);
  /// Calls f(); ends all ranks if it throws.
  template <class F>
  auto together(const F& f) const;
  /// Fills a vector of this part by `read` and joins the own numbers of all ranks.
  template <class F>
  void gather(std::span<double> whole, const F& read);
  /// f(p of this part, out of this part), joined.
  template <class F>
  void product(std::span<const double> p, std::span<double> out, const F& f);
  /// Joins rows, of which every rank has those of its residuals.
  template <class F>
  void gather_rows(std::span<double> out, const F& read);
  /// Numbers of a term's instances, `size` for each.
  template <class F>
  void gather_instances(std::size_t term, std::span<double> values, std::size_t size,
                        const F& read);
  /// This part's number of a term of the whole model, or none.
  std::size_t term_here(std::size_t term) const;

  const Communicator& ranks_;
  runtime::EngineOptions options_;
  PartitionMethod method_;
  std::vector<std::uint64_t> structure_;  // versions of the batches that the part was cut from
  std::uint64_t scalars_ = 0;             // of the whole model
  std::unique_ptr<LocalModel> part_;
  std::unique_ptr<Halo> halo_;
  std::unique_ptr<runtime::Engine> inner_;
  std::vector<double> here_, here_too_;  // scratch
};

}  // namespace topograd::distributed
