// Constrained problems of Hock and Schittkowski: published minima, from the published starts, with
// one set of options.
#include "hock_schittkowski.hpp"

#include <gtest/gtest.h>

#include "../../api/expression/expression.hpp"
#include "../../frontend/problem.hpp"
#include "../../solver/evaluator.hpp"
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
  ///   size  factor of the square root of the cost
  ///   unit  factor of all unknowns
  ///   odd   another factor of every second unknown
  explicit Tabulated(const Json& row, const char* start = "start", double size = 1, double unit = 1,
                     double odd = 1)
      : x_(row[row.contains(start) ? start : "start"].get<std::vector<double>>()) {
    const auto factor = [&](std::size_t k) { return k % 2 == 1 ? unit * odd : unit; };
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] *= factor(k);
    const Parameters x = problem_.add_parameters(x_);
    for (std::size_t k = 0; k < x_.size(); ++k) {
      names_.parameters.push_back("x" + std::to_string(k + 1));
      problem_.set_bounds(x, k, 0, factor(k) * bound(row, "lower", k, -kInf),
                          factor(k) * bound(row, "upper", k, kInf));
    }
    const auto value = [&](const std::string& text, const Parameters& of) {
      std::vector<Value> leaves;
      for (std::size_t k = 0; k < x_.size(); ++k) leaves.push_back(of[k] / factor(k));
      return to_values(parse(text, names_), {.parameters = leaves, .data = {}, .uniforms = {}})[0];
    };
    if (row.contains("energy")) problem_.add_energy(size * size * value(row["energy"], x));
    for (const Json& text : row.value("squares", Json::array()))  // the cost is half their squares
      problem_.add_residual(literal(size * std::numbers::sqrt2) * value(text, x));
    for (const Json& text : row.value("equalities", Json::array()))
      problem_.add_equality(value(text, x), {.label = "equality"});
    const Parameters y = inequalities_.add_parameters(y_);
    for (const Json& text : row.value("inequalities", Json::array())) {
      problem_.add_inequality(value(text, x), {.label = "inequality"});
      inequalities_.add_residual(value(text, y));
    }
  }

  Problem& problem() { return problem_; }
  /// Its residuals are the inequalities.
  Problem& inequalities() { return inequalities_; }
  const std::vector<double>& x() const { return x_; }

 private:
  static double bound(const Json& row, const char* key, std::size_t k, double otherwise) {
    return row.contains(key) && row[key][k].is_number() ? row[key][k].get<double>() : otherwise;
  }

  std::vector<double> x_, y_ = x_;
  Problem problem_, inequalities_;
  ExpressionNames names_;
};

/// f*, x* and the conditions at the end of a solve.
void check_end(const Json& row, const Tabulated& tabulated, const Summary& s, Method method) {
  const double minimum = row["minimum"], f = s.final_cost + row.value("offset", 0.0);
  EXPECT_EQ(s.termination, Termination::CONVERGENCE) << s.message;
  EXPECT_EQ(s.method, method);
  EXPECT_NEAR(f, minimum, 1e-6 * std::max(1.0, std::abs(minimum)));
  const KktResiduals& kkt = s.constrained.kkt;
  double largest = 1;  // the gradient of the Lagrangian has terms of this size
  for (const double lambda : s.constrained.multipliers)
    largest = std::max(largest, std::abs(lambda));
  EXPECT_LE(kkt.stationarity, 1e-8 * largest);
  EXPECT_LE(kkt.feasibility, 1e-8);
  EXPECT_LE(kkt.complementarity, 1e-8);
  const char* within = method == Method::barrier ? "barrier_within" : "at_within";
  const double share = std::max(row.value("at_within", 1e-6), row.value(within, 1e-6));
  // With these coordinates negated a point has the same values.
  std::vector<double> sign(tabulated.x().size(), 1);
  if (row.contains("mirror") && tabulated.x()[row["mirror"][0]] < 0)
    for (const std::size_t k : row["mirror"]) sign[k] = -1;
  for (std::size_t k = 0; row.contains("at") && k < tabulated.x().size(); ++k) {
    const double at = sign[k] * row["at"][k].get<double>();
    EXPECT_NEAR(tabulated.x()[k], at, share * std::max(1.0, std::abs(at))) << "x" << k + 1;
  }
}

Json table() {
  return Json::parse(read_file(source_dir() / "tests/api/data/hock_schittkowski.json"))["problems"];
}

}  // namespace

void check_units(const SolverOptions& options, std::size_t least) {
  const struct {
    double size, unit, odd;
    std::size_t short_by = 0;
  } rows[] = {{1e5, 1, 1}, {1e-5, 1, 1}, {1, 1e5, 1}, {1, 1e-5, 1}, {1, 1, 1e6}, {1, 1, 1e-6, 1}};
  for (const auto& as : rows) {
    std::size_t solved = 0;
    for (const Json& row : table()) {
      const bool barrier = options.method == Method::barrier;
      if (barrier && !row.contains("inequalities")) continue;
      Tabulated tabulated(row, barrier ? "interior" : "start", as.size, as.unit, as.odd);
      const Summary s = solve(tabulated.problem(), options);
      const double minimum = row["minimum"];
      const double f = s.final_cost / (as.size * as.size) + row.value("offset", 0.0);
      const bool right = std::abs(f - minimum) < 1e-5 * std::max(1.0, std::abs(minimum));
      const bool converged = s.termination == Termination::CONVERGENCE;
      SCOPED_TRACE("problem " + row["number"].dump() + ": " + s.message);
      EXPECT_TRUE(right || !converged) << f << ", expected " << minimum;
      EXPECT_NE(s.termination, Termination::INFEASIBLE);
      solved += right && converged ? 1 : 0;
    }
    EXPECT_GE(solved + as.short_by, least)
        << "square root of the cost x " << as.size << ", unknowns x " << as.unit
        << ", every second one x " << as.odd;
  }
}

void check_hock_schittkowski(const SolverOptions& options) {
  const Json problems = table();
  ASSERT_GE(problems.size(), 30u);
  for (const Json& row : problems) {
    SCOPED_TRACE("problem " + row["number"].dump());
    Tabulated tabulated(row);
    const Summary s = solve(tabulated.problem(), options);
    check_end(row, tabulated, s, Method::augmented_lagrangian);
  }
}

void check_barrier(SolverOptions options) {
  std::size_t solved = 0;
  options.method = Method::barrier;
  options.update_state_every_iteration = true;
  for (const Json& row : table()) {
    if (!row.contains("inequalities")) continue;
    SCOPED_TRACE("problem " + row["number"].dump());
    Tabulated tabulated(row, "interior");
    Evaluator inequalities(tabulated.inequalities(), {.backend = Backend::cpu});
    double least = std::numeric_limits<double>::infinity();
    options.callback = [&](const IterationSummary&) {
      for (const double c : inequalities.residuals(tabulated.x())) least = std::min(least, c);
      return CallbackReturn::SOLVER_CONTINUE;
    };
    const Summary s = solve(tabulated.problem(), options);
    EXPECT_GT(least, 0);
    check_end(row, tabulated, s, Method::barrier);
    ++solved;
  }
  EXPECT_GE(solved, 20u);
}

}  // namespace topograd::test
