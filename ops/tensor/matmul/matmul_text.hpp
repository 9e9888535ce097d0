// The shaders of matrix products: tiles in shared memory, four by four numbers a register tile; and
// a number of C an invocation, for products so thin that tiles would be mostly empty.
#pragma once

#include "../../backend/kernel_text.hpp"

#include <cstdint>
#include <string>

namespace topograd::ops::detail {

/// Numbers of an operand as they lie in memory.
enum class MatmulStorage : std::uint8_t { f16, f32, f64 };

/// Which shader of C = A·B is meant. C is f64 where A and B are, else f32.
struct MatmulKernel {
  MatmulStorage storage = MatmulStorage::f32;
  bool a_transposed = false;  ///< A is stored as columns by rows
  bool b_transposed = false;
  std::uint32_t quarters = 1;  ///< a workgroup makes 64 quarters by 64 quarters of C: 1 or 2
  bool thin = false;           ///< no tiles: an invocation makes a number of C

  std::uint32_t tile() const { return 64 * quarters; }
  std::uint32_t shared_bytes() const {
    return 2 * kDepth * tile() * (storage == MatmulStorage::f64 ? 8u : 4u);
  }
  std::string name() const;

  static constexpr std::uint32_t kDepth = 16;  ///< of the tiles that are in shared memory
  static constexpr std::uint32_t kThinGroup = 256;
};

/// Tiles of the shader: small, or large where these are enough to keep a device busy. What a test
/// forces holds for products of its thread; a device's limits hold all the same.
enum class MatmulTiles : std::uint8_t { chosen, small, large };
///   most_groups  along an axis of a launch, at least 2; 0: the device's
void force_matmul_tiles(MatmulTiles tiles, std::int64_t most_groups = 0);

/// Arguments a, b, c; words: rows, columns, depth (of C, and what is summed over), a_step, a_batch
/// (elements from line to line, between batches; f16: even), b_step, b_batch, c_batch. Workgroups:
/// tiles of columns, tiles of rows, batches; of thin ones kThinGroup numbers of C (in a loop), 1,
/// batches.
///
/// Sums are of one precision with C, in the order of the depth, by fma.
KernelText matmul_kernel(const MatmulKernel& kernel);

}  // namespace topograd::ops::detail
