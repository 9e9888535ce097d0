// Internal: the kernel of squared distances.
#pragma once

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_text.hpp"

namespace topograd::ops::detail {

/// |query - target|² of each query and each of its candidates; infinity where that is no number,
/// and where there is no such target. Arguments queries, targets, candidates, result; words rows
/// (candidates of a query), depth, count (of targets), listed. Candidate i of query q is target
/// candidates(q * rows + i) if `listed`, else i, and `candidates` is not read. Thirty-two
/// invocations a candidate, for short rows one. Workgroups: eight candidates, of short rows 256 (in
/// a loop), queries.
KernelText nearest_kernel(codegen::Precision precision, bool by_invocation);

}  // namespace topograd::ops::detail
