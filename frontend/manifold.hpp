// Manifolds: spaces in which parameter blocks move.
#pragma once

#include "value/math.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {

class ExpressedManifold;

/// The operations of a manifold: a point x of n numbers is moved by a tangent vector δ of t
/// numbers. Base class of the built-in manifolds; derive from it for opaque code.
class ManifoldModel {
 public:
  virtual ~ManifoldModel() = default;

  virtual int ambient_size() const = 0;
  /// t <= n; 0 keeps the block fixed.
  virtual int tangent_size() const = 0;
  virtual std::string name() const = 0;
  /// out = x ⊞ δ; solves ask for no δ = 0, since x ⊞ 0 = x. Returns false if there is no such
  /// point.
  virtual bool plus(const double* x, const double* delta, double* out) const = 0;
  /// d(x ⊞ δ)/dδ at δ = 0, (n, t) row by row.
  virtual bool plus_jacobian(const double* x, double* jacobian) const = 0;
  /// The reason why a solve cannot start at x; empty if it can. The default checks plus_jacobian.
  virtual std::string refusal(const double* x) const;
  /// δ with x ⊞ δ = y, and d(y ⊟ x)/dy at y = x, (t, n) row by row. Solves do not need them; the
  /// defaults throw Error{Unsupported}.
  virtual bool minus(const double* y, const double* x, double* delta) const;
  virtual bool minus_jacobian(const double* x, double* jacobian) const;
  /// Itself, if kernels can contain its Plus; the library's manifolds and traced ones are such.
  virtual const ExpressedManifold* expressed() const { return nullptr; }
};

/// A manifold for Problem::set_manifold. A shared, immutable value. Names and formulas are those of
/// Ceres Solver 2.2. Factories throw Error{InvalidArgument} for invalid sizes.
class Manifold {
 public:
  /// The whole space of `size` numbers.
  static Manifold euclidean(int size);
  /// Unit quaternions (w, x, y, z), as in Parameters::quat(); δ rotates from the left by 2‖δ‖.
  static Manifold quaternion();
  /// Unit quaternions in Eigen's order (x, y, z, w), as Parameters::eigen_quat() reads them.
  static Manifold eigen_quaternion();
  /// Rotations as axis times angle: x ⊞ δ is the rotation x followed by the rotation δ.
  static Manifold so3_axis_angle();
  /// The sphere through x about the origin of `size` >= 2 dimensions.
  static Manifold sphere(int size);
  /// `size` numbers, of which the coordinates in `constant` stay fixed.
  static Manifold subset(int size, std::vector<int> constant);
  /// The product of manifolds, one after the other in the block.
  static Manifold product(std::vector<Manifold> parts);
  template <class... More>
  static Manifold product(const Manifold& first, const Manifold& second, const More&... more) {
    return product(std::vector<Manifold>{first, second, more...});
  }
  /// A user-defined manifold: `plus` takes n Values and t Values and returns the n Values of x ⊞ δ,
  /// written like a residual. Its Jacobian at δ = 0 is derived. Throws what add_residual throws,
  /// and Error{Shape} if `plus` does not return n Values.
  static Manifold custom(int ambient_size, int tangent_size,
                         const std::function<std::vector<Value>(
                             std::span<const Value> x, std::span<const Value> delta)>& plus,
                         std::string name = "custom");
  /// A user-defined manifold as opaque code.
  explicit Manifold(std::shared_ptr<const ManifoldModel> model) : model_(std::move(model)) {}

  int ambient_size() const { return model_->ambient_size(); }
  int tangent_size() const { return model_->tangent_size(); }
  std::string name() const { return model_->name(); }
  bool plus(const double* x, const double* delta, double* out) const {
    return model_->plus(x, delta, out);
  }
  bool plus_jacobian(const double* x, double* jacobian) const {
    return model_->plus_jacobian(x, jacobian);
  }
  std::string refusal(const double* x) const { return model_->refusal(x); }
  bool minus(const double* y, const double* x, double* delta) const {
    return model_->minus(y, x, delta);
  }
  bool minus_jacobian(const double* x, double* jacobian) const {
    return model_->minus_jacobian(x, jacobian);
  }
  const std::shared_ptr<const ManifoldModel>& model() const { return model_; }

 private:
  std::shared_ptr<const ManifoldModel> model_;
};

/// The built-in manifold with this name for blocks of `width` numbers; none if the name is unknown.
/// Throws what its function throws.
std::optional<Manifold> find_manifold(std::string_view name, int width);
/// "quaternion, ...".
std::string manifold_names();

}  // namespace topograd
