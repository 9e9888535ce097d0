// AutoDiffCostFunction: residuals from a functor that is templated on its scalar.
#pragma once

#include "../../../ir/error.hpp"
#include "../jet/jet.hpp"
#include "../jet/value_functions.hpp"
#include "functor.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace ceres {
namespace internal {

/// Computes residuals and Jacobian of a functor in one call with Jets.
template <class Functor, int... Ns>
bool AutoDifferentiate(const Functor& functor, BlockSizes<Ns...> sizes,
                       double const* const* parameters, int num_residuals, double* residuals,
                       double** jacobians) {
  using Sizes = BlockSizes<Ns...>;
  using Number = Jet<double, Sizes::kScalars>;
  std::array<Number, Sizes::kScalars> x;
  std::array<const Number*, Sizes::kBlocks> blocks;
  int first = 0;
  for (std::size_t i = 0; i < Sizes::kBlocks; ++i) {
    blocks[i] = x.data() + first;
    for (int k = 0; k < Sizes::kSizes[i]; ++k, ++first)
      x[static_cast<std::size_t>(first)] = Number(parameters[i][k], first);
  }
  std::vector<Number> rows(static_cast<std::size_t>(num_residuals));
  if (!Call(functor, blocks.data(), rows.data(), sizes)) return false;
  for (int r = 0; r < num_residuals; ++r) residuals[r] = rows[static_cast<std::size_t>(r)].a;
  first = 0;
  for (std::size_t i = 0; i < Sizes::kBlocks; first += Sizes::kSizes[i++]) {
    if (jacobians[i] == nullptr) continue;
    const int width = Sizes::kSizes[i];
    for (int r = 0; r < num_residuals; ++r)
      for (int k = 0; k < width; ++k)
        jacobians[i][r * width + k] = rows[static_cast<std::size_t>(r)].v[first + k];
  }
  return true;
}

}  // namespace internal

/// Residuals of a functor
/// `template <typename T> bool operator()(const T* block0, ..., T* residuals) const`.
///
/// A solve calls the functor with T = topograd::Value: once, and again when one of its branches
/// changes sides. Equal functors therefore share one kernel on any backend; numbers that the
/// functor holds then become data of its residual. A functor that cannot be traced (it returns
/// false, or looks up numbers by a parameter's value) runs on the CPU with T = Jet, as Evaluate
/// does.
template <typename CostFunctor, int kNumResiduals, int... Ns>
class AutoDiffCostFunction final : public SizedCostFunction<kNumResiduals, Ns...>,
                                   public internal::Traceable {
 public:
  explicit AutoDiffCostFunction(CostFunctor* functor, Ownership ownership = TAKE_OWNERSHIP)
      : functor_(functor, ownership) {
    static_assert(kNumResiduals != DYNAMIC, "DYNAMIC residuals need their number");
  }
  AutoDiffCostFunction(CostFunctor* functor, int num_residuals,
                       Ownership ownership = TAKE_OWNERSHIP)
      : functor_(functor, ownership) {
    static_assert(kNumResiduals == DYNAMIC, "the number of residuals is given twice");
    this->set_num_residuals(num_residuals);
  }
  explicit AutoDiffCostFunction(std::unique_ptr<CostFunctor> functor)
      : functor_(std::move(functor)) {
    static_assert(kNumResiduals != DYNAMIC, "DYNAMIC residuals need their number");
  }
  AutoDiffCostFunction(std::unique_ptr<CostFunctor> functor, int num_residuals)
      : functor_(std::move(functor)) {
    static_assert(kNumResiduals == DYNAMIC, "the number of residuals is given twice");
    this->set_num_residuals(num_residuals);
  }
  /// Constructs the functor from its arguments.
  template <class... Args>
  requires(
      kNumResiduals != DYNAMIC &&
      std::is_constructible_v<CostFunctor, Args&&...>) explicit AutoDiffCostFunction(Args&&... args)
      : functor_(std::make_unique<CostFunctor>(std::forward<Args>(args)...)) {}
  template <class... Args>
  requires(kNumResiduals == DYNAMIC && std::is_constructible_v<CostFunctor, Args&&...>)
      AutoDiffCostFunction(int num_residuals, Args&&... args)
      : functor_(std::make_unique<CostFunctor>(std::forward<Args>(args)...)) {
    this->set_num_residuals(num_residuals);
  }
  AutoDiffCostFunction(AutoDiffCostFunction&& other) noexcept
      : functor_(std::move(other.functor_)) {
    this->set_num_residuals(other.num_residuals());
  }

  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    if (jacobians == nullptr) return internal::Call(*functor_, parameters, residuals, Sizes());
    return internal::AutoDifferentiate(*functor_, Sizes(), parameters, this->num_residuals(),
                                       residuals, jacobians);
  }

  bool Trace(const topograd::Value* const* parameters, topograd::Value* residuals) const override {
    if constexpr (internal::IsTraced<CostFunctor, sizeof...(Ns)>()) {
      return internal::Call(*functor_, parameters, residuals, Sizes());
    } else {
      throw topograd::Error(topograd::ErrorCode::Unsupported, "trace: the functor takes no Values");
    }
  }

  const CostFunctor& functor() const { return *functor_; }

 private:
  using Sizes = internal::BlockSizes<Ns...>;
  internal::Owned<CostFunctor> functor_;
};

}  // namespace ceres
