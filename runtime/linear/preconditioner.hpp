// Preconditioners of conjugate gradients by name.
#pragma once

#include <cstdint>
#include <string>

namespace topograd::runtime {

/// What conjugate gradients are preconditioned with (preconditioners.def). `automatic`:
/// block_jacobi until iterations have cost what two_level takes to make, then that.
enum class Preconditioner {
  automatic,
#define TG_PRECONDITIONER(name) name,
#include "preconditioners.def"
#undef TG_PRECONDITIONER
};

/// What an engine did.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  std::string why;                                     ///< one line
  int builds = 0;                                      ///< of coarse matrices in this solve
  std::uint64_t products = 0;                          ///< with JᵀJ, for them
};

}  // namespace topograd::runtime
