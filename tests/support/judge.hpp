// An independent judge of points: cost, projected gradient and what a Gauss–Newton step still
// gains, in extended precision and without the library's derivatives.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../solver/summary.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace topograd::test {

using Real = long double;

/// Rows and their dense Jacobian at a point, over free coordinates: tangents of manifold blocks,
/// scalars elsewhere. Blocks with a loss ρ are multiplied by √ρ′, so that Jᵀr is the gradient.
struct Linearized {
  Real cost = 0;                        ///< ½ Σ ρ
  std::vector<Real> rows;               ///< r
  std::vector<std::vector<Real>> cols;  ///< J by column; empty if it has over 4,000,000 entries
  std::vector<Real> norms;              ///< ‖J_i‖
  std::vector<Real> gradient;           ///< Jᵀr
  std::vector<bool> held;               ///< a bound stops the descent of this coordinate
  std::vector<std::uint32_t> scalar;    ///< of x, for coordinates without a manifold
  bool has_manifolds = false;
};

/// What holds at a point, for sums of squares.
struct Judged {
  Real cost = 0;
  Real gradient_max = 0;  ///< max |P g_i|
  /// max |P g_i| / (‖J_i‖ ‖r‖): Summary::optimality without its floors. 0 if r is 0.
  double cosine = 0;
  /// max |P g_i| / ‖J_i‖, and √Σ (‖J_i‖ x_i)².
  double scaled_gradient = 0, scaled_x = 0;
  /// What the undamped Gauss–Newton step, or a part of it, promises and really takes from the cost,
  /// as a share of it; 0 for problems of more than 40 coordinates, or with manifolds.
  double gain = 0;
  /// The same of the step −g_i / ‖J_i‖², for any number of coordinates.
  double descent = 0;
  /// The sum of the shares of the cost that moves of single coordinates really take. It is infinite
  /// for problems of more than 40 coordinates, with manifolds, and where the cosine is at most
  /// 0.01.
  double single = std::numeric_limits<double>::infinity();
};

/// True if the judge can read the problem: residuals alone, without opaque code, constraints and
/// losses on the host.
bool can_judge(const Problem& problem);
/// ½ Σ ρ(‖r‖²) at x, in the order of the problem's scalars.
Real cost_at(const Problem& problem, std::span<const Real> x);
Linearized linearize(const Problem& problem, std::span<const Real> x);
Judged judge(const Problem& problem, std::span<const Real> x);
/// At the caller's values of the parameters.
Judged judge(const Problem& problem);

/// What speaks against a summary at the caller's values of the parameters; empty: nothing does.
///
/// Nothing does if it says FAILURE. Otherwise the cost must be the one that it says. If it says
/// CONVERGENCE in f64, the gradient must not be larger than the tolerances claim (scale-free: its
/// cosine, against 10 √tolerance, if moves really take as much as that or, for methods for any
/// cost, if a step takes something; by the gradient, for least squares: against its own tolerance),
/// Summary::optimality must be the cosine unless components were separate, and a Gauss-Newton step
/// must not take more than 1e-4 of the cost.
///
///   options  of the solve; its method is that of the summary
std::string contradiction(const Problem& problem, const SolverOptions& options,
                          const Summary& summary);

}  // namespace topograd::test
