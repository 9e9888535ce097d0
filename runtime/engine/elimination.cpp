// Elimination for engines that may lack the ability.
#include "elimination.hpp"

namespace topograd::runtime {

EliminationUse eliminate(Engine& engine, std::span<const std::uint8_t> scalars) {
  EliminationUse use;
  if (Elimination* const able = engine.abilities().elimination) {
    use = able->eliminate(scalars);
  } else {
    use.note =
        "steps of " + std::string(name(engine.backend())) + " solve for all unknowns at once";
  }
  return use;
}

}  // namespace topograd::runtime
