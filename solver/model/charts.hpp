// A problem's manifolds as programs.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../runtime/model/charts.hpp"
#include "../../runtime/model/model.hpp"

#include <memory>

namespace topograd {

/// Charts of all blocks on manifolds that are not held constant. Null where there are none, and
/// where a manifold is opaque, has no tangents or is wider than kernels of blocks are, or has
/// single constant coordinates, or where there are more than 32 kinds of them: such steps are for
/// the host.
///
/// Cost: linear in the blocks; every manifold is traced once.
std::shared_ptr<const runtime::Charts> make_charts(const Problem& problem);

/// No bound of the model is on a scalar of a block on a manifold.
bool box_spares_charts(const runtime::Model& model);

}  // namespace topograd
