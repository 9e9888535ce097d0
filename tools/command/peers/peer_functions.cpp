// A problem as functions that other solvers call.
#include "peer_functions.hpp"

#include "../../../solver/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

namespace topograd::command {
namespace {

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

}  // namespace

PeerFunctions peer_functions(Problem& problem, int threads) {
  const auto evaluator = std::make_shared<Evaluator>(
      problem, SolverOptions{.backend = Backend::cpu, .threads = threads});
  const std::size_t n = problem.parameter_count(), rows = problem.residual_count();
  PeerFunctions functions;
  if (problem.energy_count() > 0) {
    functions.objective = [evaluator, n](const double* at, double* cost, double* gradient) {
      const std::span<const double> x(at, n);
      *cost = evaluator->cost(x);
      if (!std::isfinite(*cost) || gradient == nullptr) return std::isfinite(*cost);
      const Eigen::VectorXd g = evaluator->gradient(x);
      std::copy(g.begin(), g.end(), gradient);
      return all_finite({gradient, n});
    };
    return functions;
  }
  functions.rows = rows;
  functions.least_squares = [evaluator, n, rows](const double* at, double* r, double* J) {
    const std::span<const double> x(at, n);
    const Eigen::VectorXd values = evaluator->residuals(x);
    std::copy(values.begin(), values.end(), r);
    if (!all_finite({r, rows}) || J == nullptr) return all_finite({r, rows});
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<RowMajor>(J, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(n)) =
        evaluator->jacobian(x);
    return all_finite({J, rows * n});
  };
  return functions;
}

}  // namespace topograd::command
