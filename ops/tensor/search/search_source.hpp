// Internal: kernels of cosine similarity and of the k largest.
#pragma once

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/compute_kernel.hpp"

namespace topograd::ops::detail {

/// Arguments query, targets, result; words rows, depth. Thirty-two invocations per row of targets,
/// or one for short rows. Workgroups: eight rows, or 256 short ones (in a loop); queries.
ComputeKernel cosine_kernel(codegen::Precision precision, bool by_invocation);

/// The k largest entries of pieces of rows. Arguments source, places, values, indices; words rows,
/// depth, segment, pieces, k, carried. With `carried`, entry i of a row has index places(i), or is
/// missing if that is negative; otherwise `places` is not read. Results (row, piece, k); missing
/// entries of a piece have index -1. Workgroups: pieces of rows, in x and y.
ComputeKernel top_k_kernel(codegen::Precision precision);

/// target[i / k * depth + places[i]] = numbers[i], i < count; words: count, k, depth.
ComputeKernel put_back_kernel(codegen::Precision precision);

}  // namespace topograd::ops::detail
