// Parameter blocks whose own block of JᵀJ is singular, such as a point that one spring pulls.
#pragma once

#include "../../../runtime/model/model.hpp"
#include "normal_equations.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace topograd {

/// Widest block that is looked at; the tests read matrices with this many numbers in a row.
inline constexpr std::uint32_t kWidestTested = 16;

/// True if a symmetric matrix is singular up to rounding. Overwrites its lower triangle.
bool is_singular(std::array<double, kWidestTested * kWidestTested>& matrix, std::uint32_t n);

/// The diagonal for the damping of such blocks.
///
/// If residuals do not determine a block, damping by the diagonal of JᵀJ alone decides the
/// direction of the step and sends coordinates with small derivatives far away: one spring between
/// two free points does not converge. The coordinates of a block have one unit, so the largest
/// diagonal entry of the block replaces all others: the step then leads along the gradient.
class UndeterminedBlocks {
 public:
  /// `normal` and `model` belong to one problem; `normal` may be refreshed.
  UndeterminedBlocks(const runtime::Model& model, const NormalEquations& normal);

  /// The diagonal of JᵀJ, by free scalar, with the entries of singular blocks replaced.
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
