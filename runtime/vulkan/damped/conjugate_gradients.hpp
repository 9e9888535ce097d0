// Conjugate gradients on the device: what one solve records.
#pragma once

#include "../steps/point_moves.hpp"
#include "coarse_space.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

enum class Preconditioning { none, blocks, two_level };

/// An iteration is a direction, a product with JᵀJ + Λ, an update. The solver's state is in the
/// scalars.
class ConjugateGradients : Part {
 public:
  /// All of these outlive it.
  ConjugateGradients(const Part& part, NormalProducts& products, PointMoves& moves,
                     CoarseSpace& coarse)
      : Part(part), products_(products), moves_(moves), coarse_(coarse) {}

  void need(Needs& needs, Preconditioning by);
  void record_start(CommandList& list, Preconditioning by);
  void record_iterations(CommandList& list, int count, Preconditioning by);

 private:
  /// Steps are made by the update after the one that found them: its dispatches share no scalars.
  bool alternates();
  /// Partial sums of r·z, and of r·r.
  std::uint32_t sum_groups(Preconditioning by) const {
    return v_.block_groups() + (by == Preconditioning::two_level ? coarse_.sums() : 0);
  }
  void record_pending_step(CommandList& list);
  /// These return the number of partial sums of the curvature.
  std::uint32_t record_direction_and_product(CommandList& list, const Buffer& preconditioned,
                                             std::uint32_t sums);
  std::uint32_t record_fused_product(CommandList& list, const Buffer& old_direction,
                                     const Buffer& new_direction, const Buffer& preconditioned,
                                     std::uint32_t sums);

  NormalProducts& products_;
  PointMoves& moves_;
  CoarseSpace& coarse_;
};

}  // namespace topograd::runtime::vulkan
