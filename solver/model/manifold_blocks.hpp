// A problem's manifolds as programs.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../runtime/model/model.hpp"

#include <memory>

namespace topograd {

/// Manifolds of all blocks on manifolds that are not fixed. Null, so that the host makes the steps,
/// if there are none, if a manifold is opaque, has no tangents, is wider than kernels of blocks or
/// has single fixed coordinates, or if there are more than 32 kinds.
///
/// Cost: linear in the blocks; every manifold is traced once.
std::shared_ptr<const runtime::Manifolds> make_manifolds(const Problem& problem);

/// True if no bound of the model is on a scalar of a block on a manifold.
bool bounds_spare_manifolds(const runtime::Model& model);

/// True if engines can move the problem's blocks on their manifolds.
bool engines_know_manifolds(const Problem& problem);

}  // namespace topograd
