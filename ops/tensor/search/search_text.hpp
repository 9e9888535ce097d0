// Internal: kernels of cosine similarity and of the k largest.
#pragma once

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_text.hpp"

namespace topograd::ops::detail {

/// Arguments query, targets, result; words rows, depth. Thirty-two invocations a row of targets,
/// for short rows one. Workgroups: eight rows, of short ones 256 (in a loop), queries.
KernelText cosine_kernel(codegen::Precision precision, bool by_invocation);

/// The k largest of pieces of rows. Arguments source, places, values, indices; words rows, depth,
/// segment, pieces, k, carried. With `carried`, entry i of a row is of place places(i), or none
/// where that is negative; else `places` is not read. Results (row, piece, k); what a piece does
/// not have is of place -1. Workgroups: pieces of rows, in x and y.
KernelText top_k_kernel(codegen::Precision precision);

/// target[i / k * depth + places[i]] = numbers[i], i < count; words: count, k, depth.
KernelText put_back_kernel(codegen::Precision precision);

}  // namespace topograd::ops::detail
