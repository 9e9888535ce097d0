// Wraps cost functions as functors, so that other functors can call them.
#pragma once

#include "../../../ir/error.hpp"
#include "../jet/jet.hpp"
#include "functor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ceres {

/// A cost function as `bool operator()(T const* const* parameters, T* residuals) const` for double,
/// Jet and, if the cost function can be traced, topograd::Value. A functor that contains an opaque
/// cost function runs on the CPU.
class DynamicCostFunctionToFunctor {
 public:
  /// Takes ownership.
  explicit DynamicCostFunctionToFunctor(CostFunction* cost_function) : cost_(cost_function) {}
  explicit DynamicCostFunctionToFunctor(std::unique_ptr<CostFunction> cost_function)
      : cost_(std::move(cost_function)) {}

  bool operator()(double const* const* parameters, double* residuals) const {
    return cost_->Evaluate(parameters, residuals, nullptr);
  }

  /// Throws Error{Unsupported} if the cost function cannot be traced.
  bool operator()(topograd::Value const* const* parameters, topograd::Value* residuals) const {
    const auto* traceable = dynamic_cast<const internal::Traceable*>(cost_.get());
    if (traceable == nullptr)
      throw topograd::Error(topograd::ErrorCode::Unsupported,
                            "trace: the functor contains an opaque cost function");
    return traceable->Trace(parameters, residuals);
  }

  template <typename T, int N>
  bool operator()(Jet<T, N> const* const* parameters, Jet<T, N>* residuals) const {
    const std::vector<std::int32_t>& sizes = cost_->parameter_block_sizes();
    const auto rows = static_cast<std::size_t>(cost_->num_residuals());
    std::vector<std::vector<double>> x(sizes.size()), jacobians(sizes.size());
    std::vector<const double*> points;
    std::vector<double*> derivatives;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (int k = 0; k < sizes[i]; ++k) x[i].push_back(parameters[i][k].a);
      jacobians[i].resize(rows * x[i].size());
      points.push_back(x[i].data());
      derivatives.push_back(jacobians[i].data());
    }
    std::vector<double> values(rows);
    if (!cost_->Evaluate(points.data(), values.data(), derivatives.data())) return false;
    for (std::size_t r = 0; r < rows; ++r) {
      residuals[r] = Jet<T, N>(T(values[r]));
      for (std::size_t i = 0; i < sizes.size(); ++i)
        for (std::size_t k = 0; k < x[i].size(); ++k)
          residuals[r].v += T(jacobians[i][r * x[i].size() + k]) * parameters[i][k].v;
    }
    return true;
  }

  const CostFunction& cost_function() const { return *cost_; }

 private:
  std::unique_ptr<CostFunction> cost_;
};

/// The same with one argument per parameter block.
template <int kNumResiduals, int... Ns>
class CostFunctionToFunctor {
 public:
  /// Takes ownership. Throws Error{Shape} if the sizes differ from the template's.
  explicit CostFunctionToFunctor(CostFunction* cost_function) : functor_(cost_function) { Check(); }
  explicit CostFunctionToFunctor(std::unique_ptr<CostFunction> cost_function)
      : functor_(std::move(cost_function)) {
    Check();
  }

  template <typename T, typename... Ts>
  bool operator()(const T* p0, Ts*... rest) const {
    static_assert(sizeof...(Ts) == sizeof...(Ns),
                  "one argument a parameter block, and the residuals");
    return Call(std::make_index_sequence<sizeof...(Ns)>(), p0, rest...);
  }

 private:
  void Check() const {
    const std::vector<std::int32_t> sizes = {Ns...};
    const CostFunction& cost = functor_.cost_function();
    if (cost.parameter_block_sizes() != sizes ||
        (kNumResiduals != DYNAMIC && cost.num_residuals() != kNumResiduals))
      throw topograd::Error(topograd::ErrorCode::Shape,
                            "CostFunctionToFunctor: the sizes of the cost function are not those "
                            "of the template (" +
                                std::to_string(cost.num_residuals()) + " residuals over " +
                                std::to_string(cost.parameter_block_sizes().size()) + " blocks)");
  }

  template <std::size_t... I, typename T, typename... Ts>
  bool Call(std::index_sequence<I...>, const T* p0, Ts*... rest) const {
    const std::array<const T*, sizeof...(Ns) + 1> all = {p0, rest...};
    // The last argument is the residuals, which the caller passed as T*.
    T* residuals = nullptr;
    ((residuals = const_cast<T*>(static_cast<const T*>(rest))), ...);
    return functor_(all.data(), residuals);
  }

  DynamicCostFunctionToFunctor functor_;
};

}  // namespace ceres
