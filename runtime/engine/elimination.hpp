// Engines whose steps eliminate blocks of unknowns.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime {

/// Result of a request for elimination.
struct EliminationUse {
  bool possible = false;
  Why<MatrixReason> why;  ///< eliminated, or the obstacle
};

/// An ability (abilities.hpp).
class Elimination {
 public:
  virtual ~Elimination() = default;

  /// Lets Engine::try_step(request) eliminate these blocks first, each by itself, and run conjugate
  /// gradients on their Schur complement, preconditioned by its diagonal blocks. No two of the
  /// blocks may share a residual. If a block is not positive definite the step's model_decrease is
  /// NaN. If elimination is not possible nothing is eliminated.
  ///
  ///   scalars  by scalar: 1 = of a block to eliminate; empty: solve for all unknowns again
  virtual EliminationUse eliminate(std::span<const std::uint8_t> scalars) = 0;
};

/// Calls eliminate() if the engine has the ability.
EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars);

}  // namespace topograd::runtime
