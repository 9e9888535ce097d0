// Manifolds and parameterizations from functors that are templated on their scalar.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../jet/jet.hpp"
#include "../jet/value_functions.hpp"
#include "local_parameterization.hpp"
#include "manifold.hpp"

namespace ceres {

/// The functor has `template <typename T> bool Plus(const T* x, const T* delta, T* x_plus_delta)
/// const` and `template <typename T> bool Minus(const T* y, const T* x, T* y_minus_x) const`.
template <typename Functor, int kAmbientSize, int kTangentSize>
class AutoDiffManifold final : public Manifold {
 public:
  AutoDiffManifold() : functor_(std::make_unique<Functor>()) {}
  /// Takes ownership.
  explicit AutoDiffManifold(Functor* functor) : functor_(functor) {}
  explicit AutoDiffManifold(std::unique_ptr<Functor> functor) : functor_(std::move(functor)) {}

  int AmbientSize() const override { return kAmbientSize; }
  int TangentSize() const override { return kTangentSize; }

  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override {
    return functor_->Plus(x, delta, x_plus_delta);
  }
  bool Minus(const double* y, const double* x, double* y_minus_x) const override {
    return functor_->Minus(y, x, y_minus_x);
  }

  bool PlusJacobian(const double* x, double* jacobian) const override {
    using Number = Jet<double, kTangentSize>;
    std::array<Number, kTangentSize> delta;
    std::array<Number, kAmbientSize> point, sum;
    for (int k = 0; k < kTangentSize; ++k) delta[k] = Number(0.0, k);
    for (int k = 0; k < kAmbientSize; ++k) point[k] = Number(x[k]);
    if (!functor_->Plus(point.data(), delta.data(), sum.data())) return false;
    return Store<kAmbientSize, kTangentSize>(sum, jacobian);
  }

  bool MinusJacobian(const double* x, double* jacobian) const override {
    using Number = Jet<double, kAmbientSize>;
    std::array<Number, kAmbientSize> from, to;
    std::array<Number, kTangentSize> difference;
    for (int k = 0; k < kAmbientSize; ++k) {
      from[k] = Number(x[k]);
      to[k] = Number(x[k], k);
    }
    if (!functor_->Minus(to.data(), from.data(), difference.data())) return false;
    return Store<kTangentSize, kAmbientSize>(difference, jacobian);
  }

  /// Traces Plus if possible.
  topograd::Manifold Lowered() const override {
    using Values = std::vector<topograd::Value>;
    using Arguments = std::span<const topograd::Value>;
    try {
      return topograd::Manifold::custom(
          kAmbientSize, kTangentSize, [this](Arguments x, Arguments delta) {
            Values sum(kAmbientSize);
            if (!functor_->Plus(x.data(), delta.data(), sum.data()))
              throw topograd::Error(topograd::ErrorCode::Unsupported, "trace: Plus returned false");
            return sum;
          });
    } catch (const topograd::Error&) {
      return Manifold::Lowered();
    }
  }

  const Functor& functor() const { return *functor_; }

 private:
  template <int rows, int columns, class Rows>
  static bool Store(const Rows& values, double* jacobian) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) jacobian[r * columns + c] = values[r].v[c];
    return true;
  }

  std::unique_ptr<Functor> functor_;
};

namespace internal {

/// Adapts the functor of Ceres 2.1 to the names of AutoDiffManifold's functor.
template <typename Functor>
struct PlusOfFunctor {
  template <typename T>
  bool Plus(const T* x, const T* delta, T* x_plus_delta) const {
    return (*functor)(x, delta, x_plus_delta);
  }
  template <typename T>
  bool Minus(const T*, const T*, T*) const {
    return false;
  }
  std::unique_ptr<Functor> functor;
};

}  // namespace internal

/// The functor has `template <typename T> bool operator()(const T* x, const T* delta, T*
/// x_plus_delta) const`.
template <typename Functor, int kGlobalSize, int kLocalSize>
class AutoDiffLocalParameterization : public LocalParameterization {
 public:
  AutoDiffLocalParameterization() : AutoDiffLocalParameterization(new Functor()) {}
  /// Takes ownership.
  explicit AutoDiffLocalParameterization(Functor* functor)
      : manifold_(new Named{std::unique_ptr<Functor>(functor)}) {}

  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override {
    return manifold_.Plus(x, delta, x_plus_delta);
  }
  bool ComputeJacobian(const double* x, double* jacobian) const override {
    return manifold_.PlusJacobian(x, jacobian);
  }
  int GlobalSize() const override { return kGlobalSize; }
  int LocalSize() const override { return kLocalSize; }
  topograd::Manifold Lowered() const override { return manifold_.Lowered(); }

  const Functor& functor() const { return *manifold_.functor().functor; }

 private:
  using Named = internal::PlusOfFunctor<Functor>;
  AutoDiffManifold<Named, kGlobalSize, kLocalSize> manifold_;
};

}  // namespace ceres
