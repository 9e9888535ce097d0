// The manual's statements about kinks, as rows; every backend must agree.
#pragma once

#include <gtest/gtest.h>

#include "../../../api/check_backends.hpp"
#include "../../../api/expression/expression.hpp"
#include "../../../autodiff/derivatives.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../frontend/vec.hpp"
#include "../../../ir/evaluate.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace topograd::test {

struct KinkRow {
  std::string name;
  ir::Program program;
  std::vector<double> at;
  std::vector<double> expected;  ///< rows, then the Jacobian row by row
  bool in_single = true;         ///< the point is the same in single precision
};

inline std::vector<KinkRow> kink_rows() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<KinkRow> rows;
  const auto add = [&](const std::string& text, std::vector<std::string> names,
                       std::vector<double> at, std::vector<double> expected) {
    rows.push_back({text, parse(text, {.parameters = std::move(names), .data = {}, .uniforms = {}}),
                    std::move(at), std::move(expected)});
  };
  add("select(x > 0, sqrt(x), 0)", {"x"}, {-1}, {0, 0});
  add("select(x > 0, sqrt(x), 0)", {"x"}, {0}, {0, 0});
  add("select(x > 0, sqrt(x), 0)", {"x"}, {4}, {2, 0.25});
  add("acos(x)", {"x"}, {1}, {0, -kInf});
  add("sqrt(x)", {"x"}, {0}, {0, kInf});
  add("abs(x)", {"x"}, {0}, {0, 0});
  add("atan2(y, x)", {"y", "x"}, {0, 0}, {0, 0, 0});
  add("min(a, b)", {"a", "b"}, {3, 3}, {3, 0.5, 0.5});
  add("max(a, b)", {"a", "b"}, {3, 3}, {3, 0.5, 0.5});
  add("min(a, b)", {"a", "b"}, {kNan, 1}, {kNan, 0, 1});
  add("min(a, b)", {"a", "b"}, {1, kNan}, {kNan, 0, 1});
  add("max(a, b)", {"a", "b"}, {kNan, 1}, {kNan, 0, 1});
  add("max(a, b)", {"a", "b"}, {1, kNan}, {kNan, 0, 1});
  add("gelu(x)", {"x"}, {-kInf}, {-0.0, 0});
  add("gelu(x)", {"x"}, {kInf}, {kInf, 1});
  add("silu(x)", {"x"}, {-kInf}, {-0.0, 0});
  add("silu(x)", {"x"}, {kInf}, {kInf, 1});
  add("sigmoid(x)", {"x"}, {-kInf}, {0, 0});
  add("normal_cdf(x)", {"x"}, {-kInf}, {0, 0});
  add("clamp(x, 2, 1)", {"x"}, {5}, {1, 0});
  add("clamp(x, 2, 1)", {"x"}, {0}, {1, 0});
  add("smoothstep(a, 1, x)", {"a", "x"}, {1, 2}, {1, 0, 0});
  std::vector<double> x = {0, 0, 0};
  Problem norms, directions;
  norms.add_residual(norm(norms.add_parameters(x, 3).vec3(0)));
  rows.push_back({"norm(0)", norms.topology(0).program, x, {0, 0, 0, 0}});
  directions.add_residual(normalize(directions.add_parameters(x, 3).vec3(0)));
  // Beyond the range of squares: documented as 0, and as infinity with derivative 0.
  rows.push_back({"norm, tiny", norms.topology(0).program, {1e-200, 0, 0}, {0, 0, 0, 0}, false});
  rows.push_back({"norm, huge", norms.topology(0).program, {0, 1e200, 0}, {kInf, 0, 0, 0}, false});
  rows.push_back({"normalize(0)", directions.topology(0).program, x, std::vector<double>(12)});
  return rows;
}

/// Expects the documented answer; the sign of a zero is ignored.
inline void expect_kink(const KinkRow& row, std::span<const double> got, const std::string& where) {
  ASSERT_EQ(got.size(), row.expected.size()) << row.name << where;
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(row.expected[k])) {
      EXPECT_TRUE(std::isnan(got[k])) << row.name << " output " << k << where << ": " << got[k];
    } else {
      EXPECT_EQ(got[k], row.expected[k]) << row.name << " output " << k << where;
    }
  }
}

template <class T>
void expect_kink_of_evaluator(const KinkRow& row, const ir::Program& program) {
  const std::vector<T> at(row.at.begin(), row.at.end());
  const std::vector<T> values = ir::evaluate<T>(program, {.parameters = at});
  expect_kink(row, std::vector<double>(values.begin(), values.end()), " by the evaluator");
}

/// Every row on the evaluator and on each backend.
inline void expect_documented_kinks(std::span<const check::CheckedBackend> backends) {
  for (const KinkRow& row : kink_rows()) {
    const ir::Program program =
        autodiff::residual_and_jacobian(row.program, autodiff::all_slots(row.program));
    if (row.in_single) expect_kink_of_evaluator<float>(row, program);
    expect_kink_of_evaluator<double>(row, program);
    runtime::Rows rows{.count = 1};
    for (const double x : row.at) rows.parameters.push_back({x});
    for (const check::CheckedBackend& backend : backends) {
      if (!row.in_single && backend.runner->precision() == Precision::f32) continue;
      std::vector<double> got;
      for (const auto& column : backend.runner->run(program, rows)) got.push_back(column[0]);
      expect_kink(row, got,
                  " on " + std::string(name(backend.runner->backend())) + " " +
                      std::string(codegen::name(backend.runner->precision())));
    }
  }
}

}  // namespace topograd::test
