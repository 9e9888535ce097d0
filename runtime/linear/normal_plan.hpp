// The products of Jacobians that make up the blocks of JᵀJ, and the positions of these blocks.
#pragma once

#include "../model/model.hpp"
#include "../plan/plan.hpp"
#include "block_rows.hpp"
#include "choices.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// JᵀJ by rows of blocks. All sums run in the order of the lists here, so that results have the
/// same bits in every run.
struct NormalPlan {
  Why<MatrixReason> why;  ///< if it is not possible
  bool possible() const { return why.reason == MatrixReason::none; }

  /// Products of blocks above the diagonal. Outputs: 4 words, the block's offset and its rows'
  /// length, and those of its transpose.
  std::vector<BlockProducts> products;

  BlockRows matrix;          ///< by block of x; columns are scalars of x
  std::uint64_t blocks = 0;  ///< of both triangles
};

/// Largest number of products of two blocks of an instance in a plan: 16 bytes each.
inline constexpr std::uint64_t kMostNormalProducts = 1u << 26;

/// Bytes from which on a matrix would not be used: its products are not listed then.
struct NormalLimit {
  std::uint64_t number_bytes = sizeof(double);
  std::uint64_t most_bytes = ~std::uint64_t{0};
};

/// Plans JᵀJ from the index columns alone. Not possible if a residual has a block twice, if its
/// coordinates change between instances, if blocks are wider than kMaxBlockWidth or energies take
/// part, or if so many residuals share two blocks, or blocks share one, that a kernel would wait
/// for a single sum, or beyond the limit.
///
///   groups  by term: find_groups()
///
/// Cost: linear in pairs of blocks of instances, plus sorts by row.
NormalPlan plan_normal_matrix(const Model& model, std::span<const std::vector<SlotGroup>> groups,
                              const NormalLimit& limit = {});

}  // namespace topograd::runtime
