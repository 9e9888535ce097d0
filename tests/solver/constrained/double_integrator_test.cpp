// A double integrator moved in a given time with the least effort, against its closed form, from
// any first penalty and in any units.
#include <gtest/gtest.h>

#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr std::size_t kSteps = 100;
constexpr double kStep = 1.0 / kSteps;

/// Factors of the numbers of the program.
struct Units {
  double residuals = 1, unknowns = 1, rows = 1;
};

/// From rest at 0 to rest at 1: p' = v, v' = u with the least ½ ∫ u². All rows are independent, and
/// states are in no residual.
struct Move {
  explicit Move(const Units& of) : units(of), states(2 * (kSteps + 1)), forces(kSteps) {
    const Parameters s = problem.add_parameters(states, 2), u = problem.add_parameters(forces);
    const double from = 1 / units.unknowns;
    const auto zero = [&](const Value& row) { problem.add_equality(units.rows * from * row); };
    for (std::size_t k = 0; k < kSteps; ++k) {
      problem.add_residual(units.residuals * std::sqrt(kStep) * from * u[k]);
      zero(s(k + 1, 0) - s(k, 0) - kStep * s(k, 1));
      zero(s(k + 1, 1) - s(k, 1) - kStep * u[k]);
    }
    zero(s(0, 0));
    zero(s(0, 1));
    zero(s(kSteps, 0) - units.unknowns);
    zero(s(kSteps, 1));
  }

  /// The largest errors of forces and of multipliers of velocities, as shares of the largest.
  ///
  /// The end depends on forces by Σ h u = 0 and Σ w u = 1, w_k = h² (n − 1 − k), so that the least
  /// norm has u = a h + b w. In a row of velocities u_k has the factor −h: h u_k + λ h = 0.
  void check(const Summary& s) const {
    double hh = 0, hw = 0, ww = 0;
    const auto w = [](std::size_t k) {
      return kStep * kStep * static_cast<double>(kSteps - 1 - k);
    };
    for (std::size_t k = 0; k < kSteps; ++k) {
      hh += kStep * kStep;
      hw += kStep * w(k);
      ww += w(k) * w(k);
    }
    const double determinant = hh * ww - hw * hw;
    double cost = 0, most = 0, of_forces = 0, of_multipliers = 0;
    for (std::size_t k = 0; k < kSteps; ++k) {
      const double u = (-hw * kStep + hh * w(k)) / determinant;
      cost += kStep * u * u / 2;
      most = std::max(most, std::abs(u));
      of_forces = std::max(of_forces, std::abs(forces[k] / units.unknowns - u));
      const double lambda =
          s.constrained.multipliers[2 * k + 1] * units.rows / (units.residuals * units.residuals);
      of_multipliers = std::max(of_multipliers, std::abs(lambda + u));
    }
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_LE(s.constrained.outer_iterations, 25);
    EXPECT_NEAR(s.final_cost / (units.residuals * units.residuals), cost, 1e-6 * cost);
    EXPECT_LE(of_forces, 1e-6 * most);
    EXPECT_LE(of_multipliers, 1e-6 * most);
  }

  Units units;
  std::vector<double> states, forces;
  Problem problem;
};

// Late minimisations change the cost by less than its rounding, along directions that the damping
// of their first steps held back: they ended there, and after 100 of them the violation was 7e-9.
TEST(DoubleIntegrator, EveryFirstPenaltyLeadsToTheOptimum) {
  for (const double penalty : {0.0, 1e-3, 1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}) {
    SCOPED_TRACE(penalty);
    Move move({});
    move.check(solve(move.problem, {.backend = Backend::cpu, .initial_penalty = penalty}));
  }
}

TEST(DoubleIntegrator, UnitsChangeNothing) {
  for (const Units& units : {Units{1e6, 1, 1}, Units{1e-6, 1, 1}, Units{1, 1e6, 1},
                             Units{1, 1e-6, 1}, Units{1, 1, 1e6}, Units{1, 1, 1e-6}}) {
    for (const double penalty : {0.0, 1e3}) {
      SCOPED_TRACE("residuals x " + std::to_string(units.residuals) + ", unknowns x " +
                   std::to_string(units.unknowns) + ", rows x " + std::to_string(units.rows) +
                   ", penalty " + std::to_string(penalty));
      const double unit = units.residuals / units.unknowns;
      Move move(units);
      move.check(solve(move.problem, {.backend = Backend::cpu,
                                      .constraint_tolerance = 1e-10 * units.rows,
                                      .initial_penalty = penalty * unit * unit}));
    }
  }
}

// Multipliers of its equalities have the rounding of x times their penalty, until they are fitted.
TEST(DoubleIntegrator, BarriersMeetItsEqualities) {
  for (const double penalty : {0.0, 1.0, 1e4}) {
    SCOPED_TRACE(penalty);
    Move move({});
    move.check(
        solve(move.problem,
              {.backend = Backend::cpu, .method = Method::barrier, .initial_penalty = penalty}));
  }
}

}  // namespace
}  // namespace topograd
