// Source of kernels of products of matrices, with the loads of their operands.
#pragma once

#include "../../backend/compute_kernel.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::ops::detail {

struct MatmulOperand {
  std::string_view name;    ///< name of the buffer
  std::string_view length;  ///< push constant: size of the operand besides the depth
  std::string_view origin;  ///< variable: beginning of the tile
  bool deep_lines;          ///< true if consecutive elements in memory follow the depth

  static MatmulOperand a(bool transposed) { return {"a", "rows", "row0", !transposed}; }
  static MatmulOperand b(bool transposed) { return {"b", "columns", "column0", transposed}; }
};

/// Storage type of an operand.
enum class MatmulStorage : std::uint8_t { f16, f32, f64 };

/// Selects a shader of C = A·B. C is f64 if A and B are, else f32.
struct MatmulKernel {
  MatmulStorage storage = MatmulStorage::f32;
  bool a_transposed = false;  ///< A is stored by columns
  bool b_transposed = false;
  std::uint32_t quarters = 1;  ///< a workgroup computes 64 quarters by 64 quarters of C: 1 or 2
  bool thin = false;           ///< no tiles: an invocation computes a number of C

  std::uint32_t tile() const { return 64 * quarters; }
  std::uint32_t shared_bytes() const {
    return 2 * kDepth * tile() * (storage == MatmulStorage::f64 ? 8u : 4u);
  }
  std::string name() const;

  static constexpr std::uint32_t kDepth = 16;  ///< depth of the tiles in shared memory
  static constexpr std::uint32_t kThinGroup = 256;
};

/// Tiles of the shader: small, or large if there are enough of them to occupy a device. A test can
/// force them for products of its thread, within the device's limits.
enum class MatmulTiles : std::uint8_t { chosen, small, large };
///   most_groups  maximum along an axis of a launch, at least 2; 0: the device's
void force_matmul_tiles(MatmulTiles tiles, std::int64_t most_groups = 0);

/// Arguments a, b, c; words: rows, columns, depth (of C, and the number of terms), a_step, a_batch
/// (elements between lines, between batches; f16: even), b_step, b_batch, c_batch. Workgroups:
/// tiles of columns, tiles of rows, batches; for thin products kThinGroup numbers of C (in a loop),
/// 1, batches.
///
/// Sums have the precision of C, in the order of the depth, with fma.
ComputeKernel matmul_kernel(const MatmulKernel& kernel);

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
