// Ends at saddles and kinks, for every method, of many unknowns and of separate components.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"
#include "../../support/way.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using test::Way;

std::vector<Way> ways() {
  std::vector<Way> out;
  for (const Method method : {Method::levenberg_marquardt, Method::dogleg, Method::newton,
                              Method::lbfgs, Method::adam, Method::sgd}) {
    SolverOptions options = {.backend = Backend::cpu, .method = method, .max_iterations = 300};
    options.components = Components::together;
    out.push_back({std::string(name(method)), options});
    if (method != Method::levenberg_marquardt) continue;
    // `automatic` takes conjugate gradients where there are more threads.
    options.threads = 8;
    out.push_back({"eight threads", options});
    options.threads = 0;
    options.linear_solver = LinearSolver::pcg;
    out.push_back({"pcg", options});
    options = {.backend = Backend::cpu};
    options.components = Components::separate;
    out.push_back({"components", options});
  }
  return out;
}

/// A part of a problem, of two unknowns a and b in some unit. The derivatives of its residuals, or
/// their sums, are 0 at a = b = 0, which is no minimum.
struct Part {
  const char* name;
  double start, optimum;  // half the sums of squares, by hand
  std::vector<Value> (*residuals)(const Value& a, const Value& b);
};

const Part kParts[] = {
    {"abs", 1, 0,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {abs(a) - 1.0, abs(b) - 1.0};
     }},
    {"abs beside a slope", 1, 0.01 / 1.01,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {abs(a) - 1.0, 0.1 * a, abs(b) - 1.0, 0.1 * b};
     }},
    {"abs after a step", 0.5 + 4.5, 0.005 / 1.01,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {abs(a) - 1.0, 0.1 * a, b - 3.0};
     }},
    {"square", 0.5 + 4.5, 0,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {square(a) - 1.0, b - 3.0};
     }},
    {"fourth power", 1, 0,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {square(square(a)) - 1.0, square(b) - 1.0};
     }},
    {"product", 0.5, 0,
     [](const Value& a, const Value& b) -> std::vector<Value> { return {a * b - 1.0}; }},
    {"length", 2, 0,
     [](const Value& a, const Value& b) -> std::vector<Value> {
       return {hypot(a, b) - 2.0, a - b};
     }},
    {"maximum of two", 0.5, 0, [](const Value& a, const Value& b) -> std::vector<Value> {
       return {max(abs(a), abs(b)) - 1.0, 0.5 * (a - b)};
     }}};

/// Parts beside each other, and where they end.
struct Parts {
  Problem problem;
  std::vector<double> x;

  ///   order  of the unknowns of all parts
  Parts(const Part& part, std::vector<std::uint32_t> order, double start, double unit, double scale)
      : x(order.size(), start * unit) {
    const Parameters all = problem.add_parameters(x);
    for (std::size_t k = 0; k + 1 < order.size(); k += 2) {
      std::vector<Value> rows = part.residuals(all[order[k]] / unit, all[order[k + 1]] / unit);
      for (const Value& row : rows) problem.add_residual(row * scale);
    }
  }
};

std::vector<std::uint32_t> in_order(std::size_t unknowns) {
  std::vector<std::uint32_t> out(unknowns);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

/// In another order; the same on every machine.
std::vector<std::uint32_t> mixed(std::size_t unknowns) {
  std::vector<std::uint32_t> out = in_order(unknowns);
  for (std::size_t k = unknowns; k > 1; --k) std::swap(out[k - 1], out[(k * 7919) % k]);
  for (std::size_t k = 0; k < unknowns; ++k) std::swap(out[k], out[(k * 31 + 7) % unknowns]);
  return out;
}

void expect_left(const Way& way, const Part& part, std::size_t unknowns, double start, double unit,
                 double scale, const std::vector<std::uint32_t>& order) {
  Parts parts(part, order, start, unit, scale);
  const Summary summary = solve(parts.problem, way.options);
  const std::string where = way.name + ", " + part.name + ", " + std::to_string(unknowns) +
                            " unknowns from " + std::to_string(start) + " in units of " +
                            std::to_string(unit) + ", residuals times " + std::to_string(scale) +
                            ": " + summary.message;
  const double count = 0.5 * static_cast<double>(unknowns) * scale * scale;
  EXPECT_NEAR(summary.initial_cost, part.start * count, 1e-9 * part.start * count) << where;
  EXPECT_NEAR(summary.final_cost, part.optimum * count, 1e-4 * part.start * count) << where;
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
}

bool has_rate(const Way& way) { return way.name == "adam" || way.name == "sgd"; }

/// Sums of two exponentials whose starts are the same, so that they stay so in each step.
struct Twins {
  Problem problem;
  std::vector<double> x;

  ///   many  copies beside each other, which share nothing
  ///   unit, scale  of the rates, and of the residuals
  Twins(std::size_t many, double unit, double scale) {
    for (std::size_t k = 0; k < many; ++k) x.insert(x.end(), {1.5, 0.6 * unit, 1.5, 0.6 * unit});
    const Parameters all = problem.add_parameters(x);
    for (std::size_t k = 0; k < many; ++k) {
      for (int i = 0; i < 24; ++i) {
        const double t = 0.5 * i;
        const Value p[] = {all[4 * k], all[4 * k + 1], all[4 * k + 2], all[4 * k + 3]};
        const Value sum = p[0] * exp(p[1] * (-t / unit)) + p[2] * exp(p[3] * (-t / unit));
        problem.add_residual((sum - (4 * std::exp(-0.15 * t) + 3 * std::exp(-1.5 * t))) * scale);
      }
    }
  }
};

TEST(Saddles, OfTermsThatAreTheSameAreLeft) {
  for (const Way& way : ways()) {
    if (has_rate(way)) continue;
    for (const std::size_t many : {std::size_t{1}, std::size_t{3}}) {
      if (way.name == "components" && many == 1) continue;
      for (const auto& [unit, scale] : {std::pair{1.0, 1.0}, {1e9, 1.0}, {1e-9, 1.0}, {1.0, 1e9}}) {
        // Newton's method comes to where the curvature is 1e-11 of the other entries of H.
        if (way.name == "newton" && unit == 1e9) continue;
        Twins twins(many, unit, scale);
        const Summary summary = solve(twins.problem, way.options);
        const std::string where = way.name + ", " + std::to_string(many) + " in units of " +
                                  std::to_string(unit) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_LT(summary.final_cost, 1e-4 * summary.initial_cost) << where;
        for (std::size_t k = 0; k < many; ++k) {
          const auto [slow, fast] = std::minmax(twins.x[4 * k + 1], twins.x[4 * k + 3]);
          EXPECT_NEAR(slow / unit, 0.15, 0.02) << where;
          EXPECT_NEAR(fast / unit, 1.5, 0.2) << where;
        }
      }
    }
  }
}

TEST(Saddles, AreLeftInAnyUnitAndOrder) {
  for (const Way& way : ways()) {
    if (has_rate(way)) continue;
    for (const Part& part : kParts) {
      for (const std::size_t unknowns : {std::size_t{2}, std::size_t{20}, std::size_t{300}}) {
        if (way.name == "components" && unknowns == 2) continue;
        for (const double unit : {1.0, 1e12, 1e-12})
          expect_left(way, part, unknowns, 0, unit, 1, in_order(unknowns));
        for (const double scale : {1e12, 1e-12})
          expect_left(way, part, unknowns, 0, 1, scale, in_order(unknowns));
        expect_left(way, part, unknowns, 0, 1, 1, mixed(unknowns));
        expect_left(way, part, unknowns, 1e-17, 1, 1, in_order(unknowns));
      }
    }
  }
}

/// A line as a (w t + p) + o with all unknowns at 0: the step in o leaves next to nothing of the
/// curvature between a and p, and units say how large a step in a is beside one in w.
TEST(Saddles, OfAProductBesideASumAreLeft) {
  constexpr double kTimes[] = {0, 1, 2, 3, 4, 5},
                   kValues[] = {0.238, 0.12, 0.06, -0.03, -0.11, -0.16};
  // Half the sum of the squares that a regression line leaves: 0.0566 - (Σ y)² / 12 - slope² 35
  // / 4.
  constexpr double kLeast = 0.000655238095238;
  std::vector<Way> all;
  for (const Method method : {Method::levenberg_marquardt, Method::gauss_newton, Method::dogleg,
                              Method::newton, Method::lbfgs})
    all.push_back({std::string(name(method)),
                   {.backend = Backend::cpu, .method = method, .max_iterations = 300}});
  for (const LinearSolver linear : {LinearSolver::pcg, LinearSolver::dense})
    all.push_back({std::string(name(linear)),
                   {.backend = Backend::cpu, .linear_solver = linear, .max_iterations = 300}});
  for (const Way& way : all) {
    for (const double size : {1.0, 1e9, 1e-9}) {
      for (const double unit : {1.0, 1e6, 1e-6}) {
        std::vector<double> x(4, 0.0);
        Problem problem;
        const Parameters u = problem.add_parameters(x);
        for (std::size_t i = 0; i < 6; ++i)
          problem.add_residual(u[0] * (u[1] * kTimes[i] / unit + u[2]) + u[3] - size * kValues[i]);
        const Summary summary = solve(problem, way.options);
        const std::string where = way.name + ", " + std::to_string(size) + ", " +
                                  std::to_string(unit) + ": " + summary.message;
        EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << where;
        EXPECT_NEAR(summary.final_cost / (size * size), kLeast, 1e-5 * kLeast) << where;
      }
    }
  }
}

// Steps of a given size end by the gradient, which is 0 there.
TEST(Saddles, AreLeftBySteepestDescentAndAdam) {
  for (Way way : ways()) {
    if (!has_rate(way)) continue;
    way.options.max_iterations = 2000;
    way.options.first_order.learning_rate = 0.02;
    for (const Part& part : kParts) {
      for (const std::size_t unknowns : {std::size_t{2}, std::size_t{80}}) {
        Parts parts(part, in_order(unknowns), 0, 1, 1);
        const Summary summary = solve(parts.problem, way.options);
        const double count = 0.5 * static_cast<double>(unknowns);
        const std::string where = way.name + ", " + part.name + ", " + std::to_string(unknowns) +
                                  " unknowns: " + summary.message;
        EXPECT_LT(summary.final_cost, 0.95 * part.start * count) << where;
        if (summary.termination == Termination::CONVERGENCE) {
          EXPECT_NEAR(summary.final_cost, part.optimum * count, 0.01 * part.start * count) << where;
        }
      }
    }
  }
}

}  // namespace
}  // namespace topograd
