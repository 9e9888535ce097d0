// Internal: the shader for products of f16 matrices with cooperative matrices.
#pragma once

#include "../../backend/compute_kernel.hpp"

#include <cstdint>
#include <string>

namespace topograd::ops::detail {

/// Selects a shader of C = A·B: A and B are f16, C and the sums are f32. Operands are read as
/// vectors of eight numbers.
struct MatrixUnitsKernel {
  bool a_transposed = false;  ///< A is stored by columns
  bool b_transposed = false;
  std::uint32_t rows = 128, columns = 128;        ///< part of C per workgroup
  std::uint32_t depth = 32;                       ///< depth of the tiles in shared memory
  std::uint32_t own_rows = 64, own_columns = 64;  ///< part of C per subgroup
  /// True if all tiles are complete, so that the ends of A and B need no checks.
  bool whole = false;

  static constexpr std::uint32_t kSubgroup = 32;
  static constexpr std::uint32_t kEdge = 16;  ///< size of a cooperative matrix
  std::uint32_t subgroups() const { return rows / own_rows * (columns / own_columns); }
  std::uint32_t invocations() const { return kSubgroup * subgroups(); }
  std::uint32_t shared_bytes() const;
  std::string name() const;
};

/// Arguments a, b (vectors of eight numbers, four words each), c; words: rows, columns, depth (of
/// C, and the number of terms; the depth, and the length of lines that do not follow it, are
/// multiples of 8), a_step, a_batch, b_step, b_batch (in vectors), c_batch. Workgroups: tiles of
/// columns, tiles of rows, batches.
ComputeKernel matrix_units_kernel(const MatrixUnitsKernel& kernel);

}  // namespace topograd::ops::detail
