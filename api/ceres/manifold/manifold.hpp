// Manifolds: the directions in which parameter blocks move.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../../frontend/manifold.hpp"
#include "../types/types.hpp"

namespace ceres {

/// The set of points of a block of AmbientSize() numbers, of dimension TangentSize().
class Manifold {
 public:
  virtual ~Manifold();
  virtual int AmbientSize() const = 0;
  virtual int TangentSize() const = 0;

  /// x_plus_delta = the point reached from x by the tangent vector `delta`; returns false if there
  /// is none. Plus(x, 0) = x.
  virtual bool Plus(const double* x, const double* delta, double* x_plus_delta) const = 0;
  /// The derivative of Plus(x, delta) by delta at 0: (ambient, tangent), row-major.
  virtual bool PlusJacobian(const double* x, double* jacobian) const = 0;
  /// tangent_matrix = ambient_matrix (num_rows, ambient) times PlusJacobian(x); row-major.
  virtual bool RightMultiplyByPlusJacobian(const double* x, int num_rows,
                                           const double* ambient_matrix,
                                           double* tangent_matrix) const;
  /// The tangent vector from x to y.
  virtual bool Minus(const double* y, const double* x, double* y_minus_x) const = 0;
  /// The derivative of Minus(y, x) by y at x: (tangent, ambient), row-major.
  virtual bool MinusJacobian(const double* x, double* jacobian) const = 0;

  // Additions to Ceres' interface, for manifolds built into the library.
  /// The same manifold for a topograd::Problem; by default opaque code that refers to *this.
  virtual topograd::Manifold Lowered() const;
  /// The fixed coordinates, if the manifold does nothing else: bit k stands for coordinate k.
  virtual std::optional<std::uint32_t> FixedCoordinates() const { return std::nullopt; }
};

namespace internal {

/// A built-in manifold; frontend/manifold.hpp has the formulas.
class KnownManifold : public Manifold {
 public:
  int AmbientSize() const override { return space_.ambient_size(); }
  int TangentSize() const override { return space_.tangent_size(); }
  bool Plus(const double* x, const double* delta, double* x_plus_delta) const override {
    return space_.plus(x, delta, x_plus_delta);
  }
  bool PlusJacobian(const double* x, double* jacobian) const override {
    return space_.plus_jacobian(x, jacobian);
  }
  bool Minus(const double* y, const double* x, double* y_minus_x) const override {
    return space_.minus(y, x, y_minus_x);
  }
  bool MinusJacobian(const double* x, double* jacobian) const override {
    return space_.minus_jacobian(x, jacobian);
  }
  topograd::Manifold Lowered() const override { return space_; }

 protected:
  explicit KnownManifold(topograd::Manifold space) : space_(std::move(space)) {}

 private:
  topograd::Manifold space_;
};

/// Throws Error{InvalidArgument} unless `size` is the template argument, or that is DYNAMIC.
int CheckedManifoldSize(const char* name, int of_template, int size);

/// Lines of R^n as (point, direction): points move across the direction, directions on a sphere.
topograd::Manifold LineSpace(int size);

}  // namespace internal

/// All of R^n.
template <int Size>
class EuclideanManifold final : public internal::KnownManifold {
 public:
  EuclideanManifold() : KnownManifold(topograd::Manifold::euclidean(Size)) {
    static_assert(Size != DYNAMIC, "a DYNAMIC manifold needs its size");
  }
  explicit EuclideanManifold(int size)
      : KnownManifold(topograd::Manifold::euclidean(
            internal::CheckedManifoldSize("EuclideanManifold", Size, size))) {}
  std::optional<std::uint32_t> FixedCoordinates() const override { return 0u; }
};

/// R^size with some fixed coordinates.
class SubsetManifold final : public internal::KnownManifold {
 public:
  /// Throws Error{InvalidArgument} for a coordinate out of range or listed twice.
  SubsetManifold(int size, const std::vector<int>& constant_parameters)
      : KnownManifold(topograd::Manifold::subset(size, constant_parameters)),
        constant_(constant_parameters) {}
  std::optional<std::uint32_t> FixedCoordinates() const override;

 private:
  std::vector<int> constant_;
};

/// Unit quaternions (w, x, y, z): a step multiplies from the left; delta is axis times half angle.
class QuaternionManifold final : public internal::KnownManifold {
 public:
  QuaternionManifold() : KnownManifold(topograd::Manifold::quaternion()) {}
};

/// Like QuaternionManifold, in Eigen's order (x, y, z, w).
class EigenQuaternionManifold final : public internal::KnownManifold {
 public:
  EigenQuaternionManifold() : KnownManifold(topograd::Manifold::eigen_quaternion()) {}
};

/// Vectors of R^n of fixed, non-zero length.
template <int AmbientSpaceDimension>
class SphereManifold final : public internal::KnownManifold {
 public:
  SphereManifold() : KnownManifold(topograd::Manifold::sphere(AmbientSpaceDimension)) {
    static_assert(AmbientSpaceDimension > 1, "a sphere lies in two or more dimensions");
  }
  explicit SphereManifold(int size)
      : KnownManifold(topograd::Manifold::sphere(
            internal::CheckedManifoldSize("SphereManifold", AmbientSpaceDimension, size))) {}
};

/// Lines of R^n as (point, direction); the length of the direction is constant.
template <int AmbientSpaceDimension>
class LineManifold final : public internal::KnownManifold {
 public:
  LineManifold() : KnownManifold(internal::LineSpace(AmbientSpaceDimension)) {
    static_assert(AmbientSpaceDimension > 1, "a line lies in two or more dimensions");
  }
  explicit LineManifold(int size)
      : KnownManifold(internal::LineSpace(
            internal::CheckedManifoldSize("LineManifold", AmbientSpaceDimension, size))) {}
};

namespace internal {

template <class M>
const Manifold& AsManifold(const M& manifold) {
  if constexpr (std::is_base_of_v<Manifold, M>) {
    return manifold;
  } else {
    return *manifold;
  }
}

}  // namespace internal

/// The product of manifolds, given by value or as smart pointers.
template <typename Manifold0, typename Manifold1, typename... Manifolds>
class ProductManifold final : public internal::KnownManifold {
 public:
  ProductManifold() : ProductManifold(Manifold0{}, Manifold1{}, Manifolds{}...) {}
  template <class M0, class M1, class... Ms>
  requires(sizeof...(Ms) == sizeof...(Manifolds)) ProductManifold(M0&& m0, M1&& m1, Ms&&... ms)
      : ProductManifold(std::make_unique<Parts>(std::forward<M0>(m0), std::forward<M1>(m1),
                                                std::forward<Ms>(ms)...)) {}

 private:
  using Parts = std::tuple<Manifold0, Manifold1, Manifolds...>;

  explicit ProductManifold(std::unique_ptr<Parts> parts)
      : KnownManifold(Product(*parts)), parts_(std::move(parts)) {}
  static topograd::Manifold Product(const Parts& parts) {
    return std::apply(
        [](const auto&... part) {
          return topograd::Manifold::product(internal::AsManifold(part).Lowered()...);
        },
        parts);
  }

  std::unique_ptr<Parts> parts_;  // fixed address: opaque manifolds are referred to
};

template <typename Manifold0, typename Manifold1, typename... Manifolds>
ProductManifold(Manifold0&&, Manifold1&&, Manifolds&&...)
    -> ProductManifold<std::decay_t<Manifold0>, std::decay_t<Manifold1>,
                       std::decay_t<Manifolds>...>;

}  // namespace ceres
