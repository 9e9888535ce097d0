// Short texts that are equal if two ranks have the same problem, or the same options.
#pragma once

#include "../runtime/model/model.hpp"
#include "../solver/options.hpp"

#include <string>

namespace topograd::distributed {

/// Sizes, topologies, and a hash of all columns, flags and bounds: "300 scalars, 897 rows, ...".
/// Cost: a pass over all columns.
std::string fingerprint(const runtime::Model& model);

/// Precision, method, linear solver, and limits and tolerances.
std::string fingerprint(const SolverOptions& options);

}  // namespace topograd::distributed
