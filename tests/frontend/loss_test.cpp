// Robust losses: values and derivatives against the published formulas in long double, as numbers
// and as programs; errors by text.
#include "../../frontend/loss.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../support/manual.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace topograd {
namespace {

using Real = long double;
using Rho = std::array<Real, 3>;
using Kind = Loss::Kind;

/// ρ, ρ′, ρ″ as Ceres Solver's manual has them.
Rho published(Kind kind, Real a, Real b, Real s) {
  const Real square = a * a;
  switch (kind) {
    case Kind::trivial: return {s, 1, 0};
    case Kind::huber:
      if (s <= square) return {s, 1, 0};
      return {2 * a * std::sqrt(s) - square, a / std::sqrt(s), -a / (2 * s * std::sqrt(s))};
    case Kind::soft_l1: {
      const Real sum = 1 + s / square;
      return {2 * square * (std::sqrt(sum) - 1), 1 / std::sqrt(sum),
              -1 / (2 * square * sum * std::sqrt(sum))};
    }
    case Kind::cauchy: {
      const Real sum = 1 + s / square;
      return {square * std::log(sum), 1 / sum, -1 / (square * sum * sum)};
    }
    case Kind::arctan: {
      const Real sum = 1 + s * s / square;
      return {a * std::atan2(s, a), 1 / sum, -2 * s / (square * sum * sum)};
    }
    case Kind::tukey: {
      if (s > square) return {square / 3, 0, 0};
      const Real v = 1 - s / square;
      return {square / 3 * (1 - v * v * v), v * v, -2 * v / square};
    }
    case Kind::tolerant: {
      const Real c = b * std::log1p(std::exp(-a / b)), x = (s - a) / b, e = std::exp(-std::fabs(x));
      const Real side = x > 0 ? 1 : e;
      return {b * (std::fmax(x, Real{0}) + std::log1p(e)) - c, side / (1 + e),
              e / (b * (1 + e) * (1 + e))};
    }
  }
  return {};
}

struct Row {
  const char* name;
  Loss loss;
  Kind kind;
  double a, b;
};

std::vector<Row> rows() {
  return {{"huber(0.5)", Loss::huber(0.5), Kind::huber, 0.5, 0},
          {"soft_l1(2)", Loss::soft_l1(2), Kind::soft_l1, 2, 0},
          {"cauchy(0.25)", Loss::cauchy(0.25), Kind::cauchy, 0.25, 0},
          {"arctan(3)", Loss::arctan(3), Kind::arctan, 3, 0},
          {"tukey(1.5)", Loss::tukey(1.5), Kind::tukey, 1.5, 0},
          {"tolerant(2, 0.3)", Loss::tolerant(2, 0.3), Kind::tolerant, 2, 0.3}};
}

constexpr double kSquares[] = {0, 1e-12, 1e-3, 0.249, 0.251, 1, 2, 2.26, 7, 100, 1e8};

void expect_close(double actual, Real expected, double at, int order) {
  const Real scale = std::fabs(expected);
  // tolerant's small values and derivatives are differences of numbers near 1.
  EXPECT_NEAR(actual, static_cast<double>(expected), static_cast<double>(4e-15L * scale) + 2e-15)
      << "derivative " << order << " at s = " << at;
}

std::array<double, 3> by_program(const Loss& loss, double s) {
  constexpr std::array<std::uint32_t, 1> kSlot = {0};
  const std::vector<double> uniforms = loss.uniforms();
  ir::Program program = *loss.program();
  std::array<double, 3> out = {};
  for (double& value : out) {
    value = ir::evaluate<double>(program, {std::span(&s, 1), {}, uniforms, {}, {}})[0];
    program = autodiff::jacobian(program, kSlot);
  }
  return out;
}

TEST(Loss, FormulasArePublishedOnes) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.loss.describe(), row.name);
    for (const double s : kSquares) {
      const Rho expected = published(row.kind, row.a, row.b, s);
      const std::array<double, 3> actual = row.loss.evaluate(s), traced = by_program(row.loss, s);
      for (int k = 0; k < 3; ++k) {
        expect_close(actual[k], expected[k], s, k);
        expect_close(traced[k], expected[k], s, k);
      }
    }
  }
}

// A residual that is NaN is no outlier.
TEST(Loss, NanStaysNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Row& row : rows()) {
    EXPECT_TRUE(std::isnan(row.loss.evaluate(nan)[0])) << row.name;
    EXPECT_TRUE(std::isnan(by_program(row.loss, nan)[0])) << row.name;
  }
}

TEST(Loss, ComposesAndScales) {
  const Loss both = scaled(composed(cauchy(2), scaled(huber(0.5), 3)), 0.25);
  EXPECT_EQ(both.describe(), "composed(scaled(cauchy(2), 0.25), scaled(huber(0.5), 3))");
  EXPECT_EQ(scaled(Loss(), 3).describe(), "scaled(trivial, 3)");
  for (const double s : kSquares) {
    Rho inner = published(Kind::huber, 0.5, 0, s);
    for (Real& value : inner) value *= 3;
    const Rho outer = published(Kind::cauchy, 2, 0, inner[0]);
    const Rho expected = {outer[0] / 4, outer[1] * inner[1] / 4,
                          (outer[2] * inner[1] * inner[1] + outer[1] * inner[2]) / 4};
    const std::array<double, 3> actual = both.evaluate(s), traced = by_program(both, s);
    for (int k = 0; k < 3; ++k) {
      expect_close(actual[k], expected[k], s, k);
      expect_close(traced[k], expected[k], s, k);
    }
  }
}

TEST(Loss, CustomLossesAreExpressions) {
  const double c = 0.7;
  const Loss geman = Loss::custom([&](const Value& s) { return c * s / (c + s); }, "geman");
  EXPECT_EQ(geman.describe(), "geman");
  for (const double s : kSquares) {
    const Real k = c, sum = k + s;
    const Rho expected = {k * s / sum, k * k / (sum * sum), -2 * k * k / (sum * sum * sum)};
    const std::array<double, 3> actual = geman.evaluate(s), traced = by_program(geman, s);
    for (int order = 0; order < 3; ++order) {
      expect_close(actual[order], expected[order], s, order);
      expect_close(traced[order], expected[order], s, order);
    }
  }
  const Loss other = Loss::custom([](const Value& s) { return 0.9 * s / (0.9 + s); }, "geman");
  EXPECT_EQ(*geman.program(), *other.program()) << "numbers are no part of the program";
  EXPECT_NE(geman.uniforms(), other.uniforms());
}

TEST(Loss, NumbersAreNoPartOfTheProgram) {
  EXPECT_EQ(*huber(1).program(), *tolerant(2, 3).program());
  EXPECT_EQ(*composed(huber(1), cauchy(2)).program(), *composed(tukey(3), arctan(4)).program());
  EXPECT_TRUE(scaled(Loss::trivial(), 1).is_trivial());
  EXPECT_FALSE(scaled(Loss::trivial(), 2).is_trivial());
  EXPECT_EQ(composed(Loss::trivial(), huber(1)), huber(1));
  EXPECT_NE(huber(1), cauchy(1));
}

TEST(Loss, AreEqualIfTheirStagesAre) {
  const auto both = [](double outer, double inner) {
    return composed(cauchy(outer), scaled(huber(inner), 3));
  };
  EXPECT_EQ(both(2, 0.5), both(2, 0.5));
  EXPECT_NE(both(2, 0.5), both(2, 0.6));
  EXPECT_NE(both(2, 0.5), both(3, 0.5));
  EXPECT_NE(both(2, 0.5), cauchy(2));
  EXPECT_NE(cauchy(2), both(2, 0.5));
  const auto host = [] { return Loss::host([](double s, double* rho) { rho[0] = s; }, "mine"); };
  const Loss one = host();
  EXPECT_EQ(one, Loss(one));
  EXPECT_NE(one, host()) << "code cannot be compared";
  EXPECT_NE(one, both(2, 0.5));
  EXPECT_NE(both(2, 0.5), one);
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Loss, ErrorsNameFieldRangeAndValue) {
  EXPECT_EQ(error_of([] { huber(-1); }), "huber loss: scale a must be a finite number > 0, got -1");
  EXPECT_EQ(error_of([] { tukey(NAN); }),
            "tukey loss: scale a must be a finite number > 0, got nan");
  EXPECT_EQ(error_of([] { tolerant(1, 0); }),
            "tolerant loss: b must be a finite number > 0, got 0");
  EXPECT_EQ(error_of([] { tolerant(-1, 1); }),
            "tolerant loss: a must be a finite number >= 0, got -1");
  EXPECT_EQ(error_of([] { tolerant(INFINITY, 1); }),
            "tolerant loss: a must be a finite number >= 0, got inf");
  EXPECT_EQ(error_of([] { tolerant(0, 1); }), "");
  EXPECT_EQ(error_of([] { scaled(cauchy(1), -2); }),
            "scaled cauchy(1) loss: scale must be a finite number >= 0, got -2");
  std::vector<double> values = {1};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Loss host = Loss::host([](double s, double* rho) { rho[0] = s; }, "mine");
  EXPECT_EQ(error_of([&] { problem.add_residual(x[0] - 1.0, {.loss = host}); }),
            "add_residual: the loss mine is opaque code; only host residuals can have it, write it "
            "with Loss::custom");
  EXPECT_EQ(problem.residual_count(), 0u);
}

TEST(Loss, MayBeTheOnlyOption) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::vector<Value> rows = {x[0] * 2.0, x[1]};
  problem.add_residual(x[0] - 1.0, huber(1));
  problem.add_residual({x[0], x[1]}, huber(2));
  problem.add_residual(Vec2{x[0], x[1]}, huber(3));
  problem.add_residual(rows, huber(4));
  problem.add_residual([&] { return x[1] * 3.0; }, huber(5));
  problem.add_residual(x[0], {});
  const double expected[] = {1, 2, 2, 3, 3, 4, 4, 5};
  std::uint64_t row = 0;
  for (const double scale : expected) {
    const Place place = problem.locate(row++);
    EXPECT_EQ(problem.loss(place.topology, place.instance), huber(scale)) << row;
  }
  const Place last = problem.locate(row);
  EXPECT_EQ(problem.loss(last.topology, last.instance), Loss::trivial());
}

TEST(Loss, ResidualsChangeTheirLossInPlace) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Residual first = problem.add_residual(x[0] * 2.0, {.loss = huber(1), .label = "first"});
  problem.add_residual(x[1] * 3.0, {.loss = huber(1), .label = "second"});
  const Residual plain = problem.add_residual(x[1] * 4.0, {.label = "third"});
  EXPECT_EQ(problem.topology_count(), 2u);
  const auto loss_of = [&](std::uint64_t row) {
    const Place place = problem.locate(row);
    return problem.loss(place.topology, place.instance);
  };
  const Versions before = problem.versions();
  problem.set_loss(first, cauchy(5));
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_EQ(loss_of(0), cauchy(5));
  EXPECT_EQ(loss_of(1), huber(1));
  EXPECT_NE(problem.versions().structure, before.structure) << "one of two users of its numbers";
  const std::uint64_t structure = problem.versions().structure;
  problem.set_loss(first, tukey(2));
  EXPECT_EQ(loss_of(0), tukey(2));
  EXPECT_EQ(problem.versions().structure, structure) << "the only user of its numbers";
  problem.set_loss(first, Loss::trivial());
  EXPECT_EQ(loss_of(0), Loss::trivial());
  EXPECT_EQ(problem.versions().structure, structure);
  problem.set_loss(plain, huber(1));
  EXPECT_EQ(loss_of(2), huber(1));
  EXPECT_EQ(problem.locate(2).label, "third");
  EXPECT_EQ(problem.locate(1).label, "second");
  EXPECT_EQ(problem.locate(2).topology, problem.locate(1).topology);
  problem.remove(first);
  EXPECT_EQ(problem.locate(0).label, "second");
  EXPECT_EQ(problem.locate(1).label, "third");
  EXPECT_EQ(error_of([&] { problem.set_loss(first, huber(1)); }),
            "set_loss: the residual is not there, or was removed before");
}

TEST(Loss, ManualHasTheTable) {
  std::string table = "| loss | ρ(s) |\n|---|---|\n";
  for (const LossRow& row : kLosses)
    table += "| `" + std::string(row.name) + (row.one != nullptr ? "(a)" : "(a, b)") + "` | " +
             std::string(row.formula) + " |\n";
  test::expect_table("docs/modelling.md", "losses", table);
}

}  // namespace
}  // namespace topograd
