// Derivatives of every op of the table against differences in long double; no code for any single
// op.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <cmath>
#include <random>

#include "../support/random_program.hpp"

namespace topograd::test {
namespace {

using ir::Op;
using Operands = std::array<double, 3>;

constexpr int kDraws = 400;
constexpr int kLeastChecked = 50;
constexpr double kTolerance = 1e-9;

ir::Program single(Op op) {
  ir::Graph graph;
  std::array<ir::Id, 3> p;
  for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(Op::Parameter, k);
  const ir::Id y = graph.add(op, p[0], p[1], p[2]);
  return graph.extract(std::array{y}, {.parameters = 3});
}

double draw_first(Op op, std::mt19937_64& random) {
  const ir::Domain& d = ir::info(op).domain;
  std::uniform_real_distribution<double> ordinary(-3, 3), exponent(-3, 3), share(0.01, 0.99);
  if (std::isfinite(d.min) && std::isfinite(d.max)) return d.min + (d.max - d.min) * share(random);
  if (std::isfinite(d.min)) return d.min + std::exp(exponent(random));
  return ordinary(random);
}

struct Reference {
  long double derivative = 0;
  bool smooth = false;
};

// Richardson's extrapolation of central differences. Not smooth where the steps disagree.
Reference differences(Op op, const Operands& at, int by) {
  const auto f = [&](long double step) {
    std::array<long double, 3> x = {at[0], at[1], at[2]};
    x[by] += step;
    return ir::apply<long double>(op, x[0], x[1], x[2]);
  };
  constexpr long double kStep = 1e-4L;
  const auto central = [&](long double h) { return (f(h) - f(-h)) / (2 * h); };
  const auto one_sided = [&](long double h) { return (f(h) - f(0)) / h; };
  const long double wide = central(kStep), narrow = central(kStep / 2);
  const long double scale = 1 + std::fabs(narrow);
  Reference r{.derivative = (4 * narrow - wide) / 3};
  r.smooth = std::isfinite(r.derivative) && std::fabs(wide - narrow) < 1e-6L * scale &&
             std::fabs(one_sided(kStep) - one_sided(-kStep)) < 1e-1L * scale;
  return r;
}

TEST(Derivatives, AgreeWithDifferencesForEveryOp) {
  for (Op op : all_ops()) {
    const ir::Program f = single(op);
    const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
    const ir::Program J = autodiff::jacobian(f, slots);
    const ir::Program pushed = autodiff::jvp(f);
    std::mt19937_64 random(static_cast<unsigned>(op) + 1);
    std::uniform_real_distribution<double> ordinary(-3, 3);
    int checked = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const Operands at = {draw_first(op, random), ordinary(random), ordinary(random)};
      const auto values = ir::evaluate<double>(J, {.parameters = at});
      for (int by = 0; by < ir::arity(op); ++by) {
        const Reference expected = differences(op, at, by);
        if (!expected.smooth) continue;
        Operands direction = {};
        direction[by] = 1;
        const auto tangent =
            ir::evaluate<double>(pushed, {.parameters = at, .tangents = direction});
        const double bound = kTolerance * (1 + std::fabs(static_cast<double>(expected.derivative)));
        const std::string where = std::string(ir::info(op).name) + "(" + std::to_string(at[0]) +
                                  ", " + std::to_string(at[1]) + ", " + std::to_string(at[2]) +
                                  ") by operand " + std::to_string(by);
        EXPECT_NEAR(values[by], static_cast<double>(expected.derivative), bound) << where;
        EXPECT_NEAR(tangent[0], static_cast<double>(expected.derivative), bound) << where;
        ++checked;
      }
    }
    EXPECT_GE(checked, kLeastChecked) << ir::info(op).name;
  }
}

}  // namespace
}  // namespace topograd::test
