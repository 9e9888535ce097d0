// Evaluator: against formulas by hand, against itself, and through changes of the problem.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <string>

#include "../../../tools/problems/springs.hpp"

namespace topograd {
namespace {

const SolverOptions kCpu = {.backend = Backend::cpu};

// r = (a x, x y - b): derivatives are known.
struct Products {
  std::vector<double> x = {3, 5};
  Problem problem;
  Parameters p = problem.add_parameters(x);
  Uniform weight = problem.add_uniform(2);
  Products() {
    problem.add_residual(weight * p[0], {.label = "scaled"});
    problem.add_residual(p[0] * p[1] - 1.0);
  }
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// NOLINTBEGIN(bugprone-use-after-move): what was moved from is used on purpose.
TEST(Evaluator, OneThatWasMovedFromSaysSo) {
  Products s;
  Evaluator first(s.problem, kCpu);
  Evaluator second = std::move(first);
  const std::string evaluator =
      "evaluator: it was moved from; expected the one that it was moved to";
  const std::vector<double> p = {1, 1};
  for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
           [&] { first.cost(); }, [&] { first.gradient(s.x); }, [&] { first.jacobian(); },
           [&] { first.jtjp(p); }, [&] { first.evaluate({.cost = true}); },
           [&] { first.cost_async(s.x); }, [&] { (void)first.report(); },
           [&] { (void)first.kernels(); }, [&] { (void)first.backend(); },
           [&] { (void)first.why(); }})
    EXPECT_EQ(message_of(call), evaluator);
  EXPECT_GT(second.cost(), 0);
  Solver solver(s.problem, kCpu);
  Solver other = std::move(solver);
  EXPECT_EQ(message_of([&] { solver.solve(); }),
            "solver: it was moved from; expected the one that it was moved to");
  // A moved problem leaves its users behind.
  const Problem moved = std::move(s.problem);
  const std::string problem = "problem: it was moved from; expected the one that it was moved to";
  EXPECT_EQ(message_of([&] { second.cost(); }), problem);
  EXPECT_EQ(message_of([&] { other.solve(); }), problem);
  EXPECT_EQ(message_of([&] { solve(s.problem, kCpu); }), problem);
}
// NOLINTEND(bugprone-use-after-move)

TEST(Evaluator, ValuesByHand) {
  Products s;
  Evaluator e(s.problem, kCpu);
  EXPECT_EQ(e.cost(), 0.5 * (36 + 196));
  EXPECT_EQ(e.residuals(), Eigen::Vector2d(6, 14));
  EXPECT_EQ(e.gradient(), Eigen::Vector2d(2 * 6 + 5 * 14, 3 * 14));
  Eigen::Matrix2d j;
  j << 2, 0, 5, 3;
  EXPECT_EQ(Eigen::MatrixXd(e.jacobian()), j);
  EXPECT_EQ(Eigen::MatrixXd(e.jtj()), j.transpose() * j);
  const Eigen::VectorXd v = Eigen::Vector2d(1, -2);
  EXPECT_EQ(e.jvp(v), j * v);
  EXPECT_EQ(e.vjp(v), j.transpose() * v);
  EXPECT_EQ(e.jtjp(v), j.transpose() * j * v);
  EXPECT_EQ(e.jacobian().nonZeros(), 3);
}

TEST(Evaluator, SeveralValuesAtOnceByHand) {
  Products s;
  Evaluator e(s.problem, kCpu);
  const Evaluation two = e.evaluate();
  EXPECT_EQ(two.cost, 116);
  EXPECT_EQ(two.gradient, Eigen::Vector2d(82, 42));
  EXPECT_EQ(two.residuals.size(), 0);
  s.problem.set_constant(s.p, 0);
  const std::vector<double> at = {1, 2};
  const Evaluation all = e.evaluate(at, {.residuals = true});
  EXPECT_EQ(all.cost, 2.5);
  EXPECT_EQ(all.residuals, Eigen::Vector2d(2, 1));
  EXPECT_EQ(all.gradient, Eigen::Vector2d(0, 1));
  const Evaluation one = e.evaluate({.cost = false, .residuals = true, .gradient = false});
  EXPECT_EQ(one.cost, 0);
  EXPECT_EQ(one.residuals, Eigen::Vector2d(6, 14));
  EXPECT_EQ(one.gradient.size(), 0);
}

TEST(Evaluator, AnyPointWithoutTouchingTheCallers) {
  Products s;
  Evaluator e(s.problem, kCpu);
  const std::vector<double> at = {1, 2};
  EXPECT_EQ(e.residuals(at), Eigen::Vector2d(2, 1));
  EXPECT_EQ(e.residuals(Eigen::VectorXd(Eigen::Vector2d(1, 2))), Eigen::Vector2d(2, 1));
  EXPECT_EQ(s.x, (std::vector<double>{3, 5}));
  EXPECT_EQ(e.residuals(), Eigen::Vector2d(6, 14));
  s.x = {0, 0};
  EXPECT_EQ(e.residuals(), Eigen::Vector2d(0, -1));
}

TEST(Evaluator, FollowsChanges) {
  Products s;
  Evaluator e(s.problem, kCpu);
  EXPECT_EQ(e.cost(), 116);
  s.problem.set(s.weight, 1);
  EXPECT_EQ(e.residuals(), Eigen::Vector2d(3, 14));
  s.problem.set_constant(s.p, 0);
  EXPECT_EQ(e.gradient(), Eigen::Vector2d(0, 42));
  EXPECT_EQ(e.jacobian().nonZeros(), 1);
  EXPECT_EQ(Eigen::MatrixXd(e.jtj()), (Eigen::Matrix2d() << 0, 0, 0, 9).finished());
  const Eigen::VectorXd ones = Eigen::Vector2d(1, 1);
  EXPECT_EQ(e.jvp(ones), Eigen::Vector2d(0, 3));
  EXPECT_EQ(e.vjp(ones), Eigen::Vector2d(0, 3));
  EXPECT_EQ(e.jtjp(ones), Eigen::Vector2d(0, 9));
  s.problem.set_variable(s.p, 0);
  const Residual extra = s.problem.add_residual(s.p[1] * s.p[1]);
  EXPECT_EQ(e.residuals(), Eigen::Vector3d(3, 14, 25));
  s.problem.remove(extra);
  EXPECT_EQ(e.residuals(), Eigen::Vector2d(3, 14));
}

TEST(Evaluator, CountsGoOnWhereTheProblemHasChanged) {
  Products s;
  Evaluator e(s.problem, kCpu);
  e.cost();
  const std::uint64_t before = e.report().kernels_on_cpu;
  EXPECT_GT(before, 0u);
  s.problem.add_residual(s.weight * s.p[1]);
  e.cost();
  EXPECT_GT(e.report().kernels_on_cpu, before);
}

TEST(Evaluator, ProductsAgreeWithTheJacobian) {
  const auto springs = problems::springs(12);
  Evaluator e(springs->problem, kCpu);
  const Evaluator::SparseMatrix j = e.jacobian();
  Eigen::VectorXd p(j.cols()), s(j.rows());
  for (Eigen::Index k = 0; k < p.size(); ++k) p[k] = std::sin(1.7 * static_cast<double>(k));
  for (Eigen::Index k = 0; k < s.size(); ++k) s[k] = std::cos(0.3 * static_cast<double>(k));
  EXPECT_LT((e.jvp(p) - j * p).norm(), 1e-13 * p.norm());
  EXPECT_LT((e.vjp(s) - j.transpose() * s).norm(), 1e-13 * s.norm());
  EXPECT_LT((e.jtjp(p) - j.transpose() * (j * p)).norm(), 1e-12 * p.norm());
  EXPECT_LT((e.gradient() - j.transpose() * e.residuals()).norm(), 1e-13 * e.gradient().norm());
  EXPECT_LT((e.jtj() - Evaluator::SparseMatrix(j.transpose() * j)).norm(), 1e-12 * e.jtj().norm());
}

TEST(Evaluator, GradientAgainstDifferences) {
  const auto springs = problems::springs(4);
  Evaluator e(springs->problem, kCpu);
  const Eigen::VectorXd g = e.gradient();
  const double h = 1e-6;
  for (std::size_t k = 0; k < springs->x.size(); ++k) {
    std::vector<double> up = springs->x, down = springs->x;
    up[k] += h;
    down[k] -= h;
    EXPECT_NEAR(g[static_cast<Eigen::Index>(k)], (e.cost(up) - e.cost(down)) / (2 * h), 1e-8) << k;
  }
}

TEST(Evaluator, SecondDerivativesByHand) {
  // ½ (x y − 1)² + x² y − y³: residuals and energies in one Hessian.
  std::vector<double> x = {2, 3};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] * p[1] - 1.0);
  problem.add_energy(square(p[0]) * p[1] - cube(p[1]));
  Evaluator e(problem, kCpu);
  EXPECT_EQ(e.cost(), 12.5 + 12 - 27);
  EXPECT_EQ(e.gradient(), Eigen::Vector2d(5 * 3 + 12, 5 * 2 + 4 - 27));
  Eigen::Matrix2d h;
  h << 9 + 6, 6 + 5 + 4, 6 + 5 + 4, 4 - 18;
  EXPECT_EQ(Eigen::MatrixXd(e.hessian()), h);
  const Eigen::VectorXd v = Eigen::Vector2d(1, -2);
  EXPECT_EQ(e.hvp(v), h * v);
  EXPECT_EQ(e.hvp(x, v), h * v);
  // JᵀJ and related products are those of the residual.
  EXPECT_EQ(Eigen::MatrixXd(e.jtj()), (Eigen::Matrix2d() << 9, 6, 6, 4).finished());
  EXPECT_EQ(e.jtjp(v), (Eigen::Vector2d(9 - 12, 6 - 8)));
  EXPECT_EQ(e.residuals().size(), 1);
  EXPECT_EQ(e.jacobian().rows(), 1);
  // Each term without its negative eigenvalues, by the formula of 2 x 2 matrices.
  const auto positive = [](double a, double b, double c) {
    const double mean = (a + c) / 2, radius = std::hypot((a - c) / 2, b);
    const Eigen::Matrix2d m = (Eigen::Matrix2d() << a, b, b, c).finished();
    const Eigen::Matrix2d one = Eigen::Matrix2d::Identity();
    return Eigen::Matrix2d((mean + radius) / (2 * radius) * (m - (mean - radius) * one));
  };
  const Eigen::Matrix2d want = positive(9, 11, 4) + positive(6, 4, -18);
  EXPECT_LT((Eigen::MatrixXd(e.hessian({.project_psd = true})) - want).norm(), 1e-13);
  problem.set_constant(p, 0);
  EXPECT_EQ(Eigen::MatrixXd(e.hessian(x)), (Eigen::Matrix2d() << 0, 0, 0, -14).finished());
  EXPECT_EQ(e.hvp(v), Eigen::Vector2d(0, 28));
}

TEST(Evaluator, ListsItsKernels) {
  const auto springs = problems::springs(10);
  const std::vector<KernelInfo> kernels = Evaluator(springs->problem, kCpu).kernels();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "spring");
  EXPECT_EQ(kernels[0].instances, 261u);
  EXPECT_EQ(kernels[0].outputs, 1u);
  EXPECT_EQ(kernels[0].parameters, 6u);
  EXPECT_EQ(kernels[0].bytes_per_instance, 6u * 4 + 8);
  EXPECT_EQ(kernels[0].backend, "cpu");
  EXPECT_GT(kernels[0].gradient_operations, kernels[0].residual_operations);
  EXPECT_EQ(kernels[1].name, "anchor");
  EXPECT_EQ(kernels[1].instances, 4u);
  EXPECT_EQ(kernels[1].outputs, 3u);
}

TEST(Evaluator, SizesAreChecked) {
  Products s;
  Evaluator e(s.problem, kCpu);
  const std::vector<double> three = {1, 2, 3};
  const struct {
    std::function<void()> call;
    const char* message;
  } rows[] = {
      {[&] { e.cost(three); }, "evaluator: x needs 2 numbers, got 3"},
      {[&] { e.jvp(three); }, "evaluator: p needs 2 numbers, got 3"},
      {[&] { e.vjp(three); }, "evaluator: seeds needs 2 numbers, got 3"},
      {[&] { e.jtjp(three); }, "evaluator: p needs 2 numbers, got 3"},
  };
  for (const auto& row : rows) {
    try {
      row.call();
      FAIL() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Shape);
      EXPECT_STREQ(error.what(), row.message);
    }
  }
}

}  // namespace
}  // namespace topograd
