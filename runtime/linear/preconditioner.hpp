// Preconditioners of conjugate gradients by name.
#pragma once

#include <cstdint>
#include <string>

namespace topograd::runtime {

/// What conjugate gradients are preconditioned with. `block_jacobi`: D⁻¹, inverses of the damped
/// diagonal blocks. `two_level`: D⁻¹ + P (Pᵀ A P)⁻¹ Pᵀ with the smooth vectors P of a CoarsePlan.
/// `automatic`: the first until iterations have cost what the other takes to make, then the other.
enum class Preconditioner { automatic, block_jacobi, two_level };

/// What an engine did.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  std::string why;                                     ///< one line
  int builds = 0;                                      ///< of coarse matrices in this solve
  std::uint64_t products = 0;                          ///< with JᵀJ, for them
};

}  // namespace topograd::runtime
