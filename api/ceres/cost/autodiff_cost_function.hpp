// Cost functions from functors that are templated on their scalar, of any number of blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../jet/jet.hpp"
#include "../jet/value_functions.hpp"
#include "functor.hpp"

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
  std::vector<Number> rows(static_cast<std::size_t>(num_residuals), Unwritten<Number>());
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
  bool IsNoexcept() const override {
    if constexpr (internal::IsTraced<CostFunctor, sizeof...(Ns)>()) {
      return internal::IsNothrowCallable<CostFunctor, topograd::Value>(
          std::make_index_sequence<sizeof...(Ns)>());
    } else {
      return false;
    }
  }

  const CostFunctor& functor() const { return *functor_; }

 private:
  using Sizes = internal::BlockSizes<Ns...>;
  internal::Owned<CostFunctor> functor_;
};

/// Residuals of a functor
/// `template <typename T> bool operator()(T const* const* parameters, T* residuals) const`.
///
/// Block sizes are added one after the other; call SetNumResiduals before use. Solves trace it like
/// AutoDiffCostFunction. Evaluate differentiates by Stride parameters per call of the functor.
template <typename CostFunctor, int Stride = 4>
class DynamicAutoDiffCostFunction final : public DynamicCostFunction, public internal::Traceable {
 public:
  explicit DynamicAutoDiffCostFunction(CostFunctor* functor, Ownership ownership = TAKE_OWNERSHIP)
      : functor_(functor, ownership) {}
  explicit DynamicAutoDiffCostFunction(std::unique_ptr<CostFunctor> functor)
      : functor_(std::move(functor)) {}
  template <class... Args>
  requires(std::is_constructible_v<CostFunctor, Args&&...>) explicit DynamicAutoDiffCostFunction(
      Args&&... args)
      : functor_(std::make_unique<CostFunctor>(std::forward<Args>(args)...)) {}

  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    if (jacobians == nullptr) return (*functor_)(parameters, residuals);
    const std::vector<std::int32_t>& sizes = this->parameter_block_sizes();
    const int scalars = std::accumulate(sizes.begin(), sizes.end(), 0);
    Jets jets(*this, parameters, scalars);
    for (int first = 0; first < std::max(scalars, 1); first += Stride) {
      if (first > 0 && !jets.Wants(jacobians, first)) continue;
      if (!jets.Run(first)) return false;
      jets.Store(first, residuals, jacobians);
    }
    return true;
  }

  bool Trace(const topograd::Value* const* parameters, topograd::Value* residuals) const override {
    if constexpr (kIsTraced) {
      return (*functor_)(parameters, residuals);
    } else {
      throw topograd::Error(topograd::ErrorCode::Unsupported, "trace: the functor takes no Values");
    }
  }
  bool IsNoexcept() const override {
    if constexpr (kIsTraced) {
      return std::is_nothrow_invocable_v<const CostFunctor&, topograd::Value const* const*,
                                         topograd::Value*>;
    } else {
      return false;
    }
  }

  const CostFunctor& functor() const { return *functor_; }

 private:
  using Number = Jet<double, Stride>;

  static constexpr bool kIsTraced = [] {
    if constexpr (!topograd::traced_functor<CostFunctor>) {
      return false;
    } else {
      return std::is_invocable_v<const CostFunctor&, topograd::Value const* const*,
                                 topograd::Value*>;
    }
  }();

  /// The inputs of one call, differentiated by `Stride` neighbouring parameters.
  class Jets {
   public:
    Jets(const DynamicAutoDiffCostFunction& cost, double const* const* parameters, int scalars)
        : cost_(cost),
          x_(static_cast<std::size_t>(scalars)),
          rows_(static_cast<std::size_t>(cost.num_residuals()), internal::Unwritten<Number>()) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < cost.parameter_block_sizes().size(); ++i) {
        blocks_.push_back(x_.data() + at);
        for (int k = 0; k < cost.parameter_block_sizes()[i]; ++k) x_[at++].a = parameters[i][k];
      }
    }

    /// True if a derivative by one of the parameters from `first` on is requested.
    bool Wants(double** jacobians, int first) const {
      int at = 0;
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const int end = at + cost_.parameter_block_sizes()[i];
        if (jacobians[i] != nullptr && at < first + Stride && end > first) return true;
        at = end;
      }
      return false;
    }

    bool Run(int first) {
      for (std::size_t k = 0; k < x_.size(); ++k) {
        x_[k].v.setZero();
        const int direction = static_cast<int>(k) - first;
        if (direction >= 0 && direction < Stride) x_[k].v[direction] = 1;
      }
      return (*cost_.functor_)(blocks_.data(), rows_.data());
    }

    void Store(int first, double* residuals, double** jacobians) const {
      for (std::size_t r = 0; r < rows_.size(); ++r) residuals[r] = rows_[r].a;
      int at = 0;
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const int width = cost_.parameter_block_sizes()[i];
        for (int k = 0; k < width; ++k, ++at) {
          const int direction = at - first;
          if (jacobians[i] == nullptr || direction < 0 || direction >= Stride) continue;
          for (std::size_t r = 0; r < rows_.size(); ++r)
            jacobians[i][r * static_cast<std::size_t>(width) + static_cast<std::size_t>(k)] =
                rows_[r].v[direction];
        }
      }
    }

   private:
    const DynamicAutoDiffCostFunction& cost_;
    std::vector<Number> x_, rows_;
    std::vector<const Number*> blocks_;
  };

  internal::Owned<CostFunctor> functor_;
};

}  // namespace ceres
