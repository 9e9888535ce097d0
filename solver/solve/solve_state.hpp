// The problem of a Solver, with options, model and summary of the present solve.
#pragma once

#include "../../frontend/problem.hpp"
#include "../linear/factor/elimination.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../session/retrace.hpp"
#include "../summary.hpp"
#include "best_point.hpp"

namespace topograd {

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
