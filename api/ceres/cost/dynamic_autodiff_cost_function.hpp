// DynamicAutoDiffCostFunction: a functor over any number of parameter blocks.
#pragma once

#include "../../../ir/error.hpp"
#include "../jet/jet.hpp"
#include "../jet/value_functions.hpp"
#include "functor.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace ceres {

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
          rows_(static_cast<std::size_t>(cost.num_residuals())) {
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
