// Manifolds whose Plus is an expression of Values, so that kernels can contain it.
#pragma once

#include "../manifold.hpp"

#include <span>
#include <string>
#include <vector>

namespace topograd {

/// A manifold with Plus as an expression.
class ExpressedManifold : public ManifoldModel {
 public:
  /// The Values of x ⊞ δ, which agree with plus() and have its derivatives also at δ = 0; empty if
  /// a part of the manifold is opaque.
  ///
  ///   x      ambient_size() Values
  ///   delta  tangent_size() Values
  virtual std::vector<Value> expression(std::span<const Value> x,
                                        std::span<const Value> delta) const = 0;
  /// Moves x to the representative of its point near which derivatives are well conditioned: angles
  /// of rotations to [0, π].
  virtual void reduce(double* /*x*/) const {}
  /// Manifolds with equal keys are equal, whoever made them. An empty key equals no other.
  virtual std::string key() const { return {}; }
  const ExpressedManifold* expressed() const final { return this; }
};

/// Plus of any manifold as an expression; empty if the manifold is opaque.
std::vector<Value> plus_expression(const Manifold& manifold, std::span<const Value> x,
                                   std::span<const Value> delta);

/// ExpressedManifold::reduce() of any manifold; opaque points stay.
void reduce(const Manifold& manifold, double* x);

namespace detail {

std::vector<Value> quaternion_plus(std::span<const Value> x, std::span<const Value> delta,
                                   std::span<const std::size_t> position);
std::vector<Value> axis_angle_plus(std::span<const Value> x, std::span<const Value> delta);
std::vector<Value> sphere_plus(std::span<const Value> x, std::span<const Value> delta);

}  // namespace detail

}  // namespace topograd
