// LocalParameterization: the interface that Ceres up to version 2.1 has instead of manifolds.
#pragma once

#include "manifold.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

namespace ceres {

/// Moves a block of GlobalSize() numbers in LocalSize() directions. Programs for Ceres 2.2 derive
/// from Manifold instead.
class LocalParameterization {
 public:
  virtual ~LocalParameterization();
  /// x_plus_delta = the point reached from x by `delta`; returns false if there is none.
  virtual bool Plus(const double* x, const double* delta, double* x_plus_delta) const = 0;
  /// The derivative of Plus(x, delta) by delta at 0: (global, local), row-major.
  virtual bool ComputeJacobian(const double* x, double* jacobian) const = 0;
  /// local_matrix = global_matrix (num_rows, global) times the Jacobian at x; row-major.
  virtual bool MultiplyByJacobian(const double* x, int num_rows, const double* global_matrix,
                                  double* local_matrix) const;
  virtual int GlobalSize() const = 0;
  virtual int LocalSize() const = 0;

  // Additions to Ceres' interface, as in Manifold.
  virtual topograd::Manifold Lowered() const;
  virtual std::optional<std::uint32_t> FixedCoordinates() const { return std::nullopt; }
};

namespace internal {

/// A parameterization as a manifold without Minus, which solves do not need.
class ParameterizationManifold final : public Manifold {
 public:
  ///   ownership  says if this object deletes `of`
  ParameterizationManifold(LocalParameterization* of, Ownership ownership)
      : owned_(ownership == TAKE_OWNERSHIP ? of : nullptr), of_(of) {}
  /// Refers to `of`.
  explicit ParameterizationManifold(const LocalParameterization& of) : of_(&of) {}

  int AmbientSize() const override { return of_->GlobalSize(); }
  int TangentSize() const override { return of_->LocalSize(); }
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override {
    return of_->Plus(x, delta, x_plus_delta);
  }
  bool PlusJacobian(const double* x, double* jacobian) const override {
    return of_->ComputeJacobian(x, jacobian);
  }
  bool RightMultiplyByPlusJacobian(const double* x, int num_rows, const double* ambient_matrix,
                                   double* tangent_matrix) const override {
    return of_->MultiplyByJacobian(x, num_rows, ambient_matrix, tangent_matrix);
  }
  bool Minus(const double*, const double*, double*) const override { return false; }
  bool MinusJacobian(const double*, double*) const override { return false; }
  topograd::Manifold Lowered() const override { return of_->Lowered(); }
  std::optional<std::uint32_t> FixedCoordinates() const override { return of_->FixedCoordinates(); }

  const LocalParameterization* parameterization() const { return of_; }

 private:
  std::unique_ptr<const LocalParameterization> owned_;
  const LocalParameterization* of_;
};

/// A parameterization that equals a manifold of Ceres 2.2 with delta multiplied by 1 / Scale.
template <class Self, class Today, int Scale = 1>
class KnownParameterization : public LocalParameterization {
 public:
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override {
    std::vector<double> scaled(delta, delta + LocalSize());
    for (double& number : scaled) number /= Scale;
    return today_.Plus(x, scaled.data(), x_plus_delta);
  }
  bool ComputeJacobian(const double* x, double* jacobian) const override {
    if (!today_.PlusJacobian(x, jacobian)) return false;
    for (int k = 0; k < GlobalSize() * LocalSize(); ++k) jacobian[k] /= Scale;
    return true;
  }
  int GlobalSize() const override { return today_.AmbientSize(); }
  int LocalSize() const override { return today_.TangentSize(); }
  topograd::Manifold Lowered() const override {
    return IsToday() ? today_.Lowered() : LocalParameterization::Lowered();
  }
  std::optional<std::uint32_t> FixedCoordinates() const override {
    return IsToday() ? today_.FixedCoordinates() : std::nullopt;
  }

 protected:
  explicit KnownParameterization(Today today) : today_(std::move(today)) {}

 private:
  /// A class derived from this one by users may move in another way.
  bool IsToday() const { return Scale == 1 && typeid(*this) == typeid(Self); }

  Today today_;
};

}  // namespace internal

class IdentityParameterization
    : public internal::KnownParameterization<IdentityParameterization, EuclideanManifold<DYNAMIC>> {
 public:
  explicit IdentityParameterization(int size)
      : KnownParameterization(EuclideanManifold<DYNAMIC>(size)) {}
};

class SubsetParameterization
    : public internal::KnownParameterization<SubsetParameterization, SubsetManifold> {
 public:
  SubsetParameterization(int size, const std::vector<int>& constant_parameters)
      : KnownParameterization(SubsetManifold(size, constant_parameters)) {}
};

/// Unit quaternions (w, x, y, z).
class QuaternionParameterization
    : public internal::KnownParameterization<QuaternionParameterization, QuaternionManifold> {
 public:
  QuaternionParameterization() : KnownParameterization(QuaternionManifold()) {}
};

/// Unit quaternions (x, y, z, w).
class EigenQuaternionParameterization
    : public internal::KnownParameterization<EigenQuaternionParameterization,
                                             EigenQuaternionManifold> {
 public:
  EigenQuaternionParameterization() : KnownParameterization(EigenQuaternionManifold()) {}
};

/// Vectors of fixed, non-zero length; delta is twice the delta of SphereManifold.
class HomogeneousVectorParameterization
    : public internal::KnownParameterization<HomogeneousVectorParameterization,
                                             SphereManifold<DYNAMIC>, 2> {
 public:
  explicit HomogeneousVectorParameterization(int size)
      : KnownParameterization(SphereManifold<DYNAMIC>(size)) {}
};

/// Lines as (point, direction); delta is twice the delta of LineManifold.
template <int AmbientSpaceDimension>
class LineParameterization
    : public internal::KnownParameterization<LineParameterization<AmbientSpaceDimension>,
                                             LineManifold<AmbientSpaceDimension>, 2> {
  using Base = internal::KnownParameterization<LineParameterization<AmbientSpaceDimension>,
                                               LineManifold<AmbientSpaceDimension>, 2>;

 public:
  LineParameterization() : Base(LineManifold<AmbientSpaceDimension>()) {}
};

/// The product of parameterizations, which it owns.
class ProductParameterization final : public LocalParameterization {
 public:
  template <typename... LocalParams>
  explicit ProductParameterization(LocalParams*... local_params) {
    static_assert(sizeof...(LocalParams) >= 2, "a product has two parts or more");
    (parts_.emplace_back(local_params), ...);
  }
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override;
  bool ComputeJacobian(const double* x, double* jacobian) const override;
  int GlobalSize() const override;
  int LocalSize() const override;
  topograd::Manifold Lowered() const override;

 private:
  std::vector<std::unique_ptr<LocalParameterization>> parts_;
};

}  // namespace ceres
