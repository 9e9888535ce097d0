// The products of Jacobians that make up a Schur complement: blocks, their meetings, rows.
#pragma once

#include "../model/model.hpp"
#include "../plan/plan.hpp"
#include "block_rows.hpp"
#include "choices.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Largest number of products of two meetings of an eliminated block in a plan: 8 bytes each.
inline constexpr std::uint64_t kMostSchurProducts = 1u << 26;

/// The normal equations [B E; Eᵀ C] of kept and eliminated blocks, and S = B − E C⁻¹ Eᵀ.
///
/// Kept unknowns are renumbered, blocks of one width adjacent (`kept` positions). A meeting is an
/// off-diagonal block of the matrix, by rows: its rows belong to a kept block, its columns to an
/// eliminated block (E) or to a later kept block (B). All sums run in the order of the vectors
/// here, so that results have the same bits in every run.
struct SchurPlan {
  Why<MatrixReason> why;  ///< if it is not possible
  bool possible() const { return why.reason == MatrixReason::none; }

  struct Blocks {  ///< of one width, neighbours in their list
    std::uint32_t width = 1, first = 0, count = 0;
    std::uint32_t position = 0;  ///< kept: of the first one's first unknown
    std::uint32_t inverse = 0;   ///< of the first number in inverses, or in packed triangles
  };
  std::vector<Blocks> kept_widths, eliminated_widths;
  std::vector<std::uint32_t> kept;         ///< by kept block: its first scalar
  std::vector<std::uint32_t> kept_scalar;  ///< by kept position: its scalar
  std::vector<std::uint32_t> eliminated;   ///< by eliminated block: its first scalar
  std::uint32_t inverses = 0;              ///< numbers: packed triangles of the eliminated blocks

  /// Products of meetings, of which each has one term. Outputs: 3 words, the position of the
  /// values, and the first scalars of row and column.
  std::vector<BlockProducts> products;
  std::uint64_t meeting_values = 0;

  // E, meetings sorted by eliminated block; E C⁻¹ has the same positions.
  std::vector<BlockShape> couplings;          ///< by shape
  std::vector<std::uint32_t> coupling_words;  ///< 2 words: position of values, number of the
                                              ///< block among those of its width
  std::vector<std::uint32_t> back_starts;     ///< by eliminated block: its meetings
  std::vector<std::uint32_t> back_entries;    ///< 3 words: values, kept position, rows
  std::vector<std::uint32_t> row_starts;      ///< by kept block: its meetings
  std::vector<std::uint32_t> row_entries;     ///< 3 words: values, first scalar, columns

  // S: sums of products in pieces, then its blocks.
  std::vector<BlockShape> pieces;  ///< by shape; inner: columns of the meetings
  std::vector<std::uint32_t> piece_starts, piece_entries;  ///< 2 words: value in E C⁻¹, value in E
  std::vector<std::uint32_t> piece_outputs;                ///< position of the piece's values
  std::uint64_t piece_values = 0;
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::uint32_t kBlockWords = 7;
  std::vector<BlockShape> blocks;          ///< of S, upper triangle
  std::vector<std::uint32_t> block_words;  ///< value of a meeting or kNone; offset and stride of
                                           ///< the block, then of its transpose; kept block
                                           ///< (diagonal ones) or kNone; its packed offset
  std::vector<std::uint32_t> block_starts, block_pieces;  ///< positions of pieces' values
  BlockRows complement;      ///< S by kept block; columns are kept positions
  std::uint32_t packed = 0;  ///< numbers of its diagonal blocks' triangles
  std::uint64_t total_products = 0;

  std::uint32_t unknowns() const { return static_cast<std::uint32_t>(kept_scalar.size()); }
};

/// Plans the elimination of some blocks from index columns and flags alone.
///
///   scalars  by scalar of x: 1 = of a block to eliminate
///   groups   by term: find_groups(); energies have none
///
/// Cost: sorts of the meetings, and of the pairs of meetings of each eliminated block.
SchurPlan plan_schur(const Model& model, std::span<const std::uint8_t> scalars,
                     std::span<const std::vector<SlotGroup>> groups);

}  // namespace topograd::runtime
