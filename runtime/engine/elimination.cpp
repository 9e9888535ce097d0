// Elimination for engines that may lack the ability.
#include "elimination.hpp"

namespace topograd::runtime {

EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars) {
  if (Elimination* const able = engine.abilities().elimination) return able->eliminate(scalars);
  return {.why = {MatrixReason::no_ability}};
}

FactorUse factorize(Engine& engine, bool wanted) {
  if (Elimination* const able = engine.abilities().elimination) return able->factorize(wanted);
  return {.why = {MatrixReason::no_ability}};
}

}  // namespace topograd::runtime
