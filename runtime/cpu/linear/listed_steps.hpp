// Conjugate gradients of a step on a device, with the sums of the host.
#pragma once

#include "../../model/listed_system.hpp"
#include "../terms/linear_term.hpp"
#include "conjugate_gradients.hpp"
#include "step_preconditioner.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime::cpu {

/// A device's copy of the stored Jacobians, and solves there.
class ListedSteps final : public CoarseProducts {
 public:
  explicit ListedSteps(std::unique_ptr<ListedSolver> solver) : solver_(std::move(solver)) {}

  /// Call after the terms have changed.
  void follow() { state_ = State::unknown; }
  /// Call after J was stored at another point.
  void linearized() { columns_are_there_ = false; }
  /// Brings the system of a step to the device, before its preconditioner is made. Returns false
  /// where the device cannot have it.
  bool prepare(std::span<const LinearTerm<double>> terms, const StepSystem<double>& system);
  void set(const CoarsePlan& plan, std::span<const double> vectors, std::uint64_t version) override;
  std::span<const double> multiply(std::span<const double> y) override {
    return solver_->coarse_product(y);
  }
  /// Solves A x = right_side as conjugate_gradients() does, with the same bits.
  CgReport solve(StepPreconditioner<double>& preconditioner, std::span<const double> right_side,
                 std::span<double> x, const CgOptions& options);

 private:
  enum class State { unknown, fits, refused };
  bool fits(std::span<const LinearTerm<double>> terms, const StepSystem<double>& system);

  std::unique_ptr<ListedSolver> solver_;
  State state_ = State::unknown;
  bool columns_are_there_ = false;
  std::uint64_t coarse_version_ = 0;  // of the vectors on the device; 0: there are none
};

}  // namespace topograd::runtime::cpu
