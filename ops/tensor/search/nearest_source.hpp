// Internal: the kernel of squared distances.
#pragma once

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/compute_kernel.hpp"

namespace topograd::ops::detail {

/// Computes |query - target|² for each query and each of its candidates; infinity for NaN and for
/// missing targets. Arguments queries, targets, candidates, result; words rows (candidates per
/// query), depth, count (of targets), listed. Candidate i of query q is target candidates(q * rows
/// + i) if `listed`, else i, without reading `candidates`. Thirty-two invocations per candidate, or
/// one for short rows. Workgroups: eight candidates, or 256 for short rows (in a loop); queries.
ComputeKernel nearest_kernel(codegen::Precision precision, bool by_invocation);

}  // namespace topograd::ops::detail
