// Conjugate gradients on a device that has a part of the model.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../terms/term_sums.hpp"
#include "part_exchange.hpp"

#include <vector>

namespace topograd::runtime::vulkan {

/// Solves (JᵀJ + Λ) δ = −gradient, preconditioned by blocks. Vectors stay on the device; the host
/// exchanges borders and sums by chunk, and decides. An iteration is two submissions.
///
/// Ghosts of the direction are not exchanged: each part makes them from those of the preconditioned
/// residual, by the operations of their owners, and those of δ from them. Where some parts are on
/// CPUs (ModelPart::mixed), directions are exchanged, as there, by one more submission.
class PartGradients : Part {
 public:
  /// All of these outlive it.
  PartGradients(const Part& part, TermSums& sums, const ChunkSums& chunks, PartGhosts& ghosts,
                PartWork& work);

  /// Its lists, to be made before the first solve.
  std::vector<Recorder::List> lists();
  /// Leaves δ in the vectors, with its ghosts. Returns the iterations. Collective.
  int solve(const StepRequest& request);

 private:
  struct Products {
    double rr = 0, rz = 0;
  };
  void record_preconditioned(CommandList& list);
  void record_start(CommandList& list);
  void record_direction(CommandList& list);
  void record_product(CommandList& list);
  void record_update(CommandList& list);
  Products products();
  double multiply(double beta);
  Products move(double rz, double curvature);

  TermSums& sums_;
  const ChunkSums& chunks_;
  PartGhosts& ghosts_;
  PartWork& work_;
  ChunkColumns products_, curvature_;
  std::uint64_t number_bytes_;  // of a scalar
  Buffer beta_, products_now_;  // numbers that the host writes and lists copy: β; r·z and p·q
  Recorded start_, direct_product_, direction_, product_, update_;
};

}  // namespace topograd::runtime::vulkan
