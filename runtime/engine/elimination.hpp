// Engines whose steps eliminate blocks of unknowns.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace topograd::runtime {

/// What becomes of an elimination.
struct EliminationUse {
  bool possible = false;
  std::string note;  ///< words for the report: what remains, or why it cannot be done
};

/// An ability (abilities.hpp).
class Elimination {
 public:
  virtual ~Elimination() = default;

  /// Engine::try_step(request) eliminates these blocks first, each by itself, and runs conjugate
  /// gradients on what remains, their Schur complement, preconditioned by its diagonal blocks. No
  /// two of them meet in a residual. A block that is not positive definite gives a step whose
  /// model_decrease is NaN. Where it is not possible nothing is eliminated.
  ///
  ///   scalars  by scalar: 1 = of a block to eliminate; empty: solve for all unknowns at once again
  virtual EliminationUse eliminate(std::span<const std::uint8_t> scalars) = 0;
};

/// Asks an engine that may not have the ability.
EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars);

}  // namespace topograd::runtime
