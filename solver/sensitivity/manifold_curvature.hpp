// How blocks on manifolds bend away from their tangent spaces.
#pragma once

#include "../../frontend/manifold.hpp"

#include <Eigen/Core>

#include <span>

namespace topograd {

/// ∂²/∂δ² of gᵀ(x ⊞ δ) at δ = 0: what a Hessian in tangent coordinates has beside Pᵀ∇²f P. Central
/// differences of three lengths, extrapolated to about ten digits; opaque manifolds too.
///
///   x, gradient  ambient_size() numbers each
///
/// Returns a (t, t) matrix of NaN if the manifold refuses a point nearby.
Eigen::MatrixXd manifold_curvature(const Manifold& manifold, const double* x,
                                   const double* gradient);

}  // namespace topograd
