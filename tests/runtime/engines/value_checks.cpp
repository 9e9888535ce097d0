// Evaluations of all values, and of some of them.
#include "value_checks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace topograd::test {

void check_values(runtime::Engine& engine, const OwnedModel& m, double tolerance, bool same_bits) {
  std::vector<double> rows(m.model.rows), gradient(m.x.size());
  engine.residuals(rows);
  engine.gradient(gradient);
  const double cost = engine.cost(), want = reference_cost(m);
  const auto same = [&](const std::vector<double>& got, const std::vector<double>& alone) {
    if (same_bits) {
      EXPECT_EQ(got, alone);
    }
    if (!alone.empty()) {
      EXPECT_LE(relative_difference(got, alone), tolerance);
    }
  };
  const double poison = std::nan("");
  for (const bool with_cost : {false, true}) {
    for (const bool with_rows : {false, true}) {
      for (const bool with_gradient : {false, true}) {
        SCOPED_TRACE(testing::Message() << "cost " << with_cost << ", rows " << with_rows
                                        << ", gradient " << with_gradient);
        double c = poison;
        std::vector<double> r(with_rows ? rows.size() : 0, poison);
        std::vector<double> g(with_gradient ? gradient.size() : 0, poison);
        runtime::evaluate(engine,
                          {.cost = with_cost ? &c : nullptr, .residuals = r, .gradient = g});
        if (with_cost) {
          EXPECT_NEAR(c, cost, tolerance * std::abs(cost));
          EXPECT_NEAR(c, want, tolerance * std::abs(want));
        }
        if (with_rows) same(r, rows);
        if (!with_gradient) continue;
        same(g, gradient);
        EXPECT_LE(relative_difference(g, reference_gradient(m)), tolerance);
      }
    }
  }
}

}  // namespace topograd::test
