// Preconditioners of conjugate gradients by name.
#pragma once

#include <cstdint>
#include <string>

namespace topograd::runtime {

/// Preconditioners of conjugate gradients (preconditioners.def). `automatic`: block_jacobi until
/// the iterations have cost as much as making two_level would, then two_level.
enum class Preconditioner {
  automatic,
#define TG_PRECONDITIONER(name) name,
#include "preconditioners.def"
#undef TG_PRECONDITIONER
};

/// The preconditioner that an engine used.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  std::string why;                                     ///< one line
  int builds = 0;                                      ///< of coarse matrices in this solve
  std::uint64_t products = 0;                          ///< products with JᵀJ for these builds
};

}  // namespace topograd::runtime
