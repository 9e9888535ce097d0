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

/// Result of a request for a factor of all unknowns.
struct FactorUse {
  bool possible = false;
  Why<MatrixReason> why;                     ///< if not: the obstacle
  double entries = 0, operations = 0;        ///< of the factor
  std::uint64_t levels = 0, dispatches = 0;  ///< of a factorisation and a solution
  std::uint64_t steps = 0;                   ///< of up to 32 pivots, one after another
  bool narrow = false;                       ///< its numbers are f32
  std::uint64_t predicted_bytes = 0;         ///< by the plan, of factor, fronts and lists
  std::uint64_t bytes = 0;                   ///< of their buffers
};

/// An ability (engine.hpp).
class StepElimination {
 public:
  virtual ~StepElimination() = default;

  /// Lets DampedSteps::try_step() eliminate these blocks first, each by itself, and run conjugate
  /// gradients on their Schur complement, preconditioned by its diagonal blocks. No two of the
  /// blocks may share a residual. If a block is not positive definite the step's model_decrease is
  /// NaN. If elimination is not possible nothing is eliminated.
  ///
  ///   scalars  by scalar: 1 = of a block to eliminate; empty: solve for all unknowns again
  virtual EliminationUse eliminate(std::span<const std::uint8_t> scalars) = 0;

  /// Lets DampedSteps::try_step() eliminate all unknowns, by a sparse Cholesky factor of the
  /// damped JᵀJ. If that is not positive definite the step's model_decrease is NaN. If it is not
  /// possible, or not `wanted`, steps are solved for as before.
  virtual FactorUse factorize(bool wanted) = 0;
};

/// Calls eliminate() if the engine has the ability.
EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars);
/// Likewise factorize().
FactorUse factorize(Engine& engine, bool wanted);

}  // namespace topograd::runtime
