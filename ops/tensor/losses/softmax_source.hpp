// Internal: kernels of softmax and layer normalisation.
#pragma once

#include "../../../codegen/glsl/text.hpp"
#include "../../backend/backend.hpp"
#include "../../backend/compute_kernel.hpp"

#include <cstdint>
#include <string>

namespace topograd::ops::detail {

enum class RowOp : std::uint8_t { softmax, log_softmax, layer_norm, scaled_layer_norm };

/// A row is processed by one invocation, or by a workgroup that keeps `kept` numbers of it in each
/// invocation's registers (0: reads it again).
struct RowKernel {
  RowOp op = RowOp::softmax;
  codegen::Precision precision = codegen::Precision::f32;
  bool by_workgroup = true;
  std::uint32_t subgroups = 0;  ///< per workgroup, for reductions; 0: only shared memory
  std::uint32_t kept = 0;
  bool whole = false;  ///< rows have 256 * kept numbers

  std::string key() const;
};

/// The kernel for rows of length `depth`.
RowKernel rows_for(const LaunchLimits& limits, RowOp op, codegen::Precision precision,
                   std::uint64_t depth);

/// Arguments source, target (scaled: source, scale, shift, target); words rows, depth and (layer
/// norms) epsilon (two words). Local size 256.
ComputeKernel row_kernel(const RowKernel& kernel);

}  // namespace topograd::ops::detail
