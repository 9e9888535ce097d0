// AutoDiffLocalParameterization: a parameterization from a functor that is templated on its scalar.
#pragma once

#include "autodiff_manifold.hpp"
#include "local_parameterization.hpp"

#include <memory>

namespace ceres {

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
