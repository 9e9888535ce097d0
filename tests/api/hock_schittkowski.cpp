// Constrained problems of Hock and Schittkowski: published minima, from the published starts, with
// one set of options.
#include "hock_schittkowski.hpp"

#include <gtest/gtest.h>

#include "../../api/expression/expression.hpp"
#include "../../api/expression/expression_values.hpp"
#include "../../frontend/problem.hpp"
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using Json = nlohmann::json;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// A problem of the table as a Problem.
class Tabulated {
 public:
  explicit Tabulated(const Json& row) : x_(row["start"].get<std::vector<double>>()) {
    const Parameters x = problem_.add_parameters(x_);
    for (std::size_t k = 0; k < x_.size(); ++k) {
      names_.parameters.push_back("x" + std::to_string(k + 1));
      problem_.set_bounds(x, k, 0, bound(row, "lower", k, -kInf), bound(row, "upper", k, kInf));
    }
    const auto value = [&](const std::string& text) {
      std::vector<Value> leaves;
      for (std::size_t k = 0; k < x_.size(); ++k) leaves.push_back(x[k]);
      return to_values(parse(text, names_), {.parameters = leaves, .data = {}, .uniforms = {}})[0];
    };
    if (row.contains("energy")) problem_.add_energy(value(row["energy"]));
    for (const Json& text : row.value("squares", Json::array()))  // the cost is half their squares
      problem_.add_residual(literal(std::numbers::sqrt2) * value(text));
    for (const Json& text : row.value("equalities", Json::array()))
      problem_.add_equality(value(text), {.label = "equality"});
    for (const Json& text : row.value("inequalities", Json::array()))
      problem_.add_inequality(value(text), {.label = "inequality"});
  }

  Problem& problem() { return problem_; }
  const std::vector<double>& x() const { return x_; }

 private:
  static double bound(const Json& row, const char* key, std::size_t k, double otherwise) {
    return row.contains(key) && row[key][k].is_number() ? row[key][k].get<double>() : otherwise;
  }

  std::vector<double> x_;
  Problem problem_;
  ExpressionNames names_;
};

}  // namespace

void check_hock_schittkowski(const SolverOptions& options) {
  const Json table = Json::parse(read_file(source_dir() / "tests/api/data/hock_schittkowski.json"));
  ASSERT_GE(table["problems"].size(), 30u);
  for (const Json& row : table["problems"]) {
    SCOPED_TRACE("problem " + row["number"].dump());
    Tabulated tabulated(row);
    const Summary s = solve(tabulated.problem(), options);
    const double minimum = row["minimum"], f = s.final_cost + row.value("offset", 0.0);
    EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
    EXPECT_EQ(s.method, Method::augmented_lagrangian);
    EXPECT_NEAR(f, minimum, 1e-6 * std::max(1.0, std::abs(minimum)));
    const KktResiduals& kkt = s.constrained.kkt;
    double largest = 1;  // the gradient of the Lagrangian has terms of this size
    for (const double lambda : s.constrained.multipliers)
      largest = std::max(largest, std::abs(lambda));
    EXPECT_LE(kkt.stationarity, 1e-8 * largest);
    EXPECT_LE(kkt.feasibility, 1e-8);
    EXPECT_LE(kkt.complementarity, 1e-8);
    for (std::size_t k = 0; row.contains("at") && k < tabulated.x().size(); ++k) {
      const double at = row["at"][k];
      EXPECT_NEAR(tabulated.x()[k], at, row.value("at_within", 1e-6) * std::max(1.0, std::abs(at)))
          << "x" << k + 1;
    }
  }
}

}  // namespace topograd::test
