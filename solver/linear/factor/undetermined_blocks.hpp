// Parameter blocks whose own block of JᵀJ is singular, such as a point that one spring pulls.
#pragma once

#include "../../../runtime/model/model.hpp"
#include "normal_equations.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace topograd {

/// Widest block that is looked at.
inline constexpr std::uint32_t kWidestTested = 16;
/// The lower triangle of a block, with kWidestTested numbers in a row.
using BlockMatrix = std::array<double, kWidestTested * kWidestTested>;

/// Sets the entries of coordinates that depend on each other to the largest one of theirs. With n
/// columns of which any two are parallel, these are all coordinates; with two pairs of parallel
/// columns, which have nothing to do with each other, each pair has its own.
///
///   matrix    the block of JᵀJ; overwritten
///   n         at most kWidestTested
///   diagonal  (n) in/out
void raise_dependent(BlockMatrix& matrix, std::uint32_t n, double* diagonal);

/// The diagonal for the damping of such blocks.
///
/// If residuals do not determine a block, damping by the diagonal of JᵀJ alone decides the
/// direction of the step and sends coordinates with small derivatives far away: one spring between
/// two free points does not converge. Coordinates that can stand for each other in the residuals
/// have one unit, so the largest diagonal entry of them replaces the others: the step then leads
/// along the gradient. Other coordinates of the block may have other units, as a focal length
/// beside two coefficients of a distortion that start at 0 with the same derivatives.
class UndeterminedBlocks {
 public:
  /// `normal` and `model` belong to one problem; `normal` may be refreshed.
  UndeterminedBlocks(const runtime::Model& model, const NormalEquations& normal);

  /// The diagonal of JᵀJ, by free scalar, with the entries of dependent coordinates replaced.
  void diagonal(const NormalEquations& normal, std::vector<double>& out) const;

 private:
  /// Free scalars of one block: columns first .. first + width - 1.
  struct Block {
    std::uint32_t first = 0, width = 0;
    std::size_t entries = 0;  // start of the packed lower triangle's positions
  };

  std::vector<Block> blocks_;
  std::vector<std::int32_t> positions_;  // in NormalEquations::values(); -1: there is no entry
};

}  // namespace topograd
