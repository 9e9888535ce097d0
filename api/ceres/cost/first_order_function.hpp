// First-order functions: a scalar cost and its gradient.
#pragma once

#include "../jet/jet.hpp"
#include "../jet/value_functions.hpp"
#include "../types/types.hpp"
#include "functor.hpp"
#include "numeric_diff.hpp"

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace ceres {

/// A cost over NumParameters() numbers.
class FirstOrderFunction {
 public:
  virtual ~FirstOrderFunction();
  /// Returns false outside of the domain. `gradient` may be nullptr.
  virtual bool Evaluate(const double* parameters, double* cost, double* gradient) const = 0;
  virtual int NumParameters() const = 0;
};

/// The cost that a functor computes with
/// `template <typename T> bool operator()(const T* parameters, T* cost) const`.
template <typename FirstOrderFunctor, int kNumParameters>
class AutoDiffFirstOrderFunction final : public FirstOrderFunction {
 public:
  static_assert(kNumParameters > 0, "the number of parameters is positive");
  /// Takes ownership.
  explicit AutoDiffFirstOrderFunction(FirstOrderFunctor* functor) : functor_(functor) {}
  explicit AutoDiffFirstOrderFunction(std::unique_ptr<FirstOrderFunctor> functor)
      : functor_(std::move(functor)) {}
  template <class... Args>
  requires(std::is_constructible_v<FirstOrderFunctor,
                                   Args&&...>) explicit AutoDiffFirstOrderFunction(Args&&... args)
      : functor_(std::make_unique<FirstOrderFunctor>(std::forward<Args>(args)...)) {}

  bool Evaluate(const double* parameters, double* cost, double* gradient) const override {
    if (gradient == nullptr) return (*functor_)(parameters, cost);
    using Number = Jet<double, kNumParameters>;
    std::vector<Number> x;
    for (int k = 0; k < kNumParameters; ++k) x.emplace_back(parameters[k], k);
    auto y = internal::Unwritten<Number>();
    if (!(*functor_)(static_cast<const Number*>(x.data()), &y)) return false;
    *cost = y.a;
    for (int k = 0; k < kNumParameters; ++k) gradient[k] = y.v[k];
    return true;
  }
  int NumParameters() const override { return kNumParameters; }
  const FirstOrderFunctor& functor() const { return *functor_; }

 private:
  std::unique_ptr<FirstOrderFunctor> functor_;
};

/// The same for `bool operator()(const double* parameters, double* cost) const`, differentiated
/// numerically; kNumParameters may be DYNAMIC.
template <typename FirstOrderFunctor, NumericDiffMethodType kMethod, int kNumParameters = DYNAMIC>
class NumericDiffFirstOrderFunction final : public FirstOrderFunction {
 public:
  explicit NumericDiffFirstOrderFunction(FirstOrderFunctor* functor,
                                         Ownership ownership = TAKE_OWNERSHIP,
                                         const NumericDiffOptions& options = NumericDiffOptions())
      : functor_(functor, ownership), size_(kNumParameters), options_(options) {
    static_assert(kNumParameters != DYNAMIC, "a DYNAMIC function needs its number of parameters");
  }
  explicit NumericDiffFirstOrderFunction(FirstOrderFunctor* functor, int num_parameters,
                                         Ownership ownership = TAKE_OWNERSHIP,
                                         const NumericDiffOptions& options = NumericDiffOptions())
      : functor_(functor, ownership), size_(num_parameters), options_(options) {
    static_assert(kNumParameters == DYNAMIC, "the number of parameters is given twice");
  }

  bool Evaluate(const double* parameters, double* cost, double* gradient) const override {
    if (!(*functor_)(parameters, cost)) return false;
    if (gradient == nullptr) return true;
    const auto f = [this](double const* const* x, double* y) { return (*functor_)(x[0], y); };
    return internal::NumericJacobian(f, kMethod, options_, {&size_, 1}, &parameters, {cost, 1},
                                     &gradient);
  }
  int NumParameters() const override { return size_; }
  const FirstOrderFunctor& functor() const { return *functor_; }

 private:
  internal::Owned<FirstOrderFunctor> functor_;
  std::int32_t size_;
  NumericDiffOptions options_;
};

}  // namespace ceres
