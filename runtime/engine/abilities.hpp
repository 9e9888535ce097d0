// What an engine can do that not every engine can.
#pragma once

namespace topograd::runtime {

class Elimination;
class GradientSteps;
class NarrowSolve;
class StepGradient;

/// Interfaces of one engine; null: the engine has none. An engine around another one names here,
/// and nowhere else, which abilities of the inner one it passes on. The pointers live as long as
/// the engine, and are asked for again after calls that may change where it runs.
struct Abilities {
  GradientSteps* gradient_steps = nullptr;  ///< first_order.hpp
  StepGradient* step_gradient = nullptr;    ///< step_gradient.hpp
  NarrowSolve* narrow_solve = nullptr;      ///< narrow_solve.hpp
  Elimination* elimination = nullptr;       ///< elimination.hpp
};

}  // namespace topograd::runtime
