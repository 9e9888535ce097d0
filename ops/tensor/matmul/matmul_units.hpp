// Internal: the shader of products of f16 matrices through cooperative matrices.
#pragma once

#include "../../backend/kernel_text.hpp"

#include <cstdint>
#include <string>

namespace topograd::ops::detail {

/// Which shader of C = A·B is meant: A and B of f16, C and the sums of f32. Operands are read as
/// vectors of eight numbers.
struct MatrixUnitsKernel {
  bool a_transposed = false;  ///< A is stored as columns by rows
  bool b_transposed = false;
  std::uint32_t rows = 128, columns = 128;        ///< of C that a workgroup makes
  std::uint32_t depth = 32;                       ///< of the tiles that are in shared memory
  std::uint32_t own_rows = 64, own_columns = 64;  ///< of C that a subgroup makes
  /// All tiles are whole, so that nothing is compared with the ends of A and B.
  bool whole = false;

  static constexpr std::uint32_t kSubgroup = 32;
  static constexpr std::uint32_t kEdge = 16;  ///< of a cooperative matrix
  std::uint32_t subgroups() const { return rows / own_rows * (columns / own_columns); }
  std::uint32_t invocations() const { return kSubgroup * subgroups(); }
  std::uint32_t shared_bytes() const;
  std::string name() const;
};

/// Arguments a, b (vectors of eight numbers, four words each), c; words: rows, columns, depth (of
/// C, and what is summed over; depth, and the length of lines that do not follow it, in multiples
/// of 8), a_step, a_batch, b_step, b_batch (in vectors), c_batch. Workgroups: tiles of columns,
/// tiles of rows, batches.
KernelText matrix_units_kernel(const MatrixUnitsKernel& kernel);

}  // namespace topograd::ops::detail
