// Predicts the time of a step by each linear solver on the CPU, from sizes alone.
#pragma once

#include "../../runtime/model/model.hpp"
#include "decide_factor.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace topograd {

/// Work of the parts of a step, as sums over all instances.
struct StepWork {
  double unknowns = 0;  ///< free scalars
  double instances = 0;
  double operations = 0;   ///< of residuals and energies
  double numbers = 0;      ///< of the stored Jacobian
  double products = 0;     ///< that JᵀJ sums
  double block_pairs = 0;  ///< pairs of blocks of an instance: places where JᵀJ sums products
  double cubes = 0;        ///< n³ for the n unknowns of an instance: projection of its Hessian
  double columns = 0;      ///< n × operations: the Hessian of an instance
  bool linear = false;     ///< every residual is affine in the unknowns, and none has a loss
  bool penalties = false;  ///< of constraints, whose weights grow
};

/// Cost: linear in the operations of all topologies; index columns are sampled.
StepWork step_work(const runtime::Model& model);

/// Seconds of the linear solver in a step; 0: not predicted.
struct StepSeconds {
  double cholesky = 0, pcg = 0;
};

/// Seconds of the sum of JᵀJ, without a factor.
double sum_seconds(const StepWork& work, int threads);
/// The same with a factor and a solution.
double factor_seconds(const StepWork& work, const FactorFacts& factor, int threads);
/// The part of a step in the time that planning the sum of JᵀJ and its factor takes.
double plan_seconds_of_step(const StepWork& work);
/// One iteration of conjugate gradients with a stored Jacobian.
double iteration_seconds(const StepWork& work, int threads);

/// What the iterations of a step depend on.
struct IterationFacts {
  std::optional<std::size_t> reach = {};  ///< of a mesh with two levels (Elimination::reach)
  std::optional<int> tried = {};          ///< that the first system took
};
/// Iterations of conjugate gradients in a step, the mean over a solve whose forcing follows the
/// gradient. On a mesh with two levels they grow with the root of `reach`, fitted to the problems
/// of bench/automatic.cpp (docs/notes/linear-solvers.md).
double expected_iterations(const StepWork& work, const IterationFacts& facts);

/// Newton's method: Hessians of all instances without their negative eigenvalues.
double projection_seconds(const StepWork& work, int threads);
/// Newton's method: the products with the Hessian of a step.
double curved_products_seconds(const StepWork& work, int threads);

/// A whole solve with a usual number of steps, before anything but sizes is known.
double solve_seconds(const StepWork& work, int threads);

}  // namespace topograd
