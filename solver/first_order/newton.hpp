// Newton's method: directions from second derivatives.
#pragma once

#include "../../runtime/cpu/linear/conjugate_gradients.hpp"
#include "../../runtime/model/model.hpp"
#include "../session/engines.hpp"
#include "descent.hpp"
#include "row_model.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace topograd {

/// Solves (H + τ diag(H)) d = −g by sparse Cholesky on the host. H is the sum of the projected
/// Hessians of all residuals and energies, so it is positive semidefinite; its pattern and the
/// elimination tree are found once. τ starts at rounding, grows if H is singular to working
/// precision or a step was much shorter than d, and shrinks again after full steps. Where full
/// steps converge slowly, H is the Hessian as it is, if that is positive definite.
///
/// Source: Teran et al., Robust Quasistatic Finite Elements and Flesh Simulation (2005).
class ProjectedNewton final : public SearchDirection {
 public:
  /// All must outlive it. Throws Error{Unsupported} if there are 2³¹ entries or more.
  ///
  ///   units        their scales, where there are any, are those of τ
  ///   exact_first  uses the Hessian as it is wherever it is positive definite: steps converge
  ///                quadratically, and large curvature of barriers adds no τ to small curvature
  ProjectedNewton(Engines& engines, const runtime::Model& model, const UnknownScales& units,
                  bool exact_first = false);
  ~ProjectedNewton() override;

  /// Held scalars have the rows and columns of the identity.
  void compute(std::span<const double> x, std::span<const double> g,
               std::span<const std::uint8_t> held, std::span<double> direction) override;
  bool has_model() const override;
  void moved(double length, std::span<const double> step,
             std::span<const double> gradient_change) override;
  bool reset() override;
  void transfer(ir::StateRecord& record, std::size_t size) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Solves H d = −g by conjugate gradients on Hessian-vector products, without a matrix; H is not
/// projected. Stops at min(½, √(‖g‖ / its first value)) ‖g‖, or at negative curvature after one
/// more step, as long as for the same positive curvature, which leads down and away from a saddle.
/// Directions along which the curvature is small are last in such a system, so a small step ends
/// nothing until one was solved to linear_tolerance. The preconditioner has the scales of a row
/// model, where it has any.
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.1.
class TruncatedNewton final : public SearchDirection {
 public:
  ///   least  ‖residual‖ / ‖g‖ of an exact step
  TruncatedNewton(Engines& engines, const runtime::Model& model, RowModel& rows, int max_iterations,
                  double least)
      : engines_(engines),
        model_(model),
        rows_(rows),
        max_iterations_(max_iterations),
        least_(least) {}

  void compute(std::span<const double> x, std::span<const double> g,
               std::span<const std::uint8_t> held, std::span<double> direction) override;
  bool has_model() const override { return !gradient_only_; }
  std::span<const double> scales() const override { return rows_.scales(); }
  Settling settling() const override { return loose_ ? Settling::loose : Settling::newton; }
  void tighten() override { exact_ = true; }
  void moved(double, std::span<const double>, std::span<const double>) override {
    gradient_only_ = false;
  }
  bool reset() override { return !std::exchange(gradient_only_, true); }
  void transfer(ir::StateRecord& record, std::size_t) override {
    record.value("gradient only", gradient_only_);
    record.value("first gradient", first_norm_);
    record.value("exact", exact_);
  }
  int linear_iterations() const override { return iterations_; }

 private:
  Engines& engines_;
  const runtime::Model& model_;
  RowModel& rows_;
  int max_iterations_, iterations_ = 0;
  double least_;
  bool gradient_only_ = false;
  bool exact_ = false;     // a small step asked for it
  bool loose_ = false;     // the last direction
  double first_norm_ = 0;  // ‖g‖ of the first direction
  runtime::cpu::Pool pool_{1};
  runtime::cpu::CgVectors<double> vectors_;
};

}  // namespace topograd
