// The problem of a Solver, its options, model and summary of the present solve, and its best point.
#pragma once

#include <span>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../first_order/control.hpp"
#include "../linear/factor/elimination.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../session/retrace.hpp"
#include "../summary.hpp"

namespace topograd {

/// The start of a solve, later the best accepted point that the host knows.
struct BestPoint {
  std::vector<double> x;
  BestElsewhere elsewhere;  ///< while a method that takes energies has it

  /// Takes the engine's point, or the last one that had reached the host if the engine fails.
  /// Fixed scalars stay. Returns how many of the `accepted` steps came after it.
  int fetch(runtime::Engine& engine, const runtime::Model& model, int accepted) noexcept;
  /// Fetches a point that is elsewhere; x stays if that fails.
  void fetch_elsewhere() noexcept;
  /// Takes these numbers of what is not fixed.
  void take(std::span<const double> best, const runtime::Model& model) noexcept;
};

struct SolveState {
  Problem problem;  ///< a view of the caller's, which lives as long as this
  SolverOptions options;
  Method outer_method = Method::automatic;  ///< constrained: options are of its minimisations
  ProblemModel model;
  EliminationHint hint;  ///< of the options
  ProblemFacts facts;    ///< without its linear system
  BestPoint best;
  Summary summary;
  RetraceCounts counts;

  bool constrained() const { return takes_constraints(outer_method); }
};

}  // namespace topograd
