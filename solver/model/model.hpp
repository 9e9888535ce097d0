// A Problem as engines see it.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../options.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// The terms that stand for constraints in a model.
enum class ConstraintTerms {
  none,       ///< constraints are no part of it
  penalties,  ///< residuals that penalise constraints, after the rows of the problem's residuals
  barriers,   ///< the same for equalities; inequalities are energies, −μ log c
};

/// Those of a method; none if it takes no constraints.
ConstraintTerms constraint_terms(Method method);

/// A model and the origin of its terms. Topologies without instances are left out.
struct ProblemModel {
  runtime::Model model;
  std::vector<std::size_t> topologies;  ///< by term: number of its topology in the problem
  const Problem* problem = nullptr;
  bool with_losses = true;  ///< arguments of make_model
  ConstraintTerms constraints = ConstraintTerms::none;
  std::vector<std::unique_ptr<ir::Topology>> own_topologies;  ///< of rewritten terms

  std::uint64_t instances() const;
  /// "residual "edge" #7 (topology ...)": label, place in the batch, hash.
  std::string describe(std::size_t term, std::size_t instance) const;
};

/// Makes a model. Copies small data; batches and topologies are references, so the problem must
/// outlive it.
///
///   call         name for messages, e.g. "solve"
///   with_losses  false: ignore robust losses
///   constraints  what stands for them
///
/// Throws Error{EmptyProblem} if there is no residual or no parameter.
ProblemModel make_model(const char* call, const Problem& problem, bool with_losses = true,
                        ConstraintTerms constraints = ConstraintTerms::none);

/// Throws Error{InvalidArgument} that names array, block and manifold if a block with free
/// coordinates is not on its manifold: a zero quaternion, the centre of a sphere.
void check_manifolds(const char* call, const Problem& problem, std::span<const double> x);

/// True if a scalar has a finite bound now; removed bounds do not count.
bool has_bounds(const Problem& problem);

}  // namespace topograd
