// ceres::Solve: backend, report, failures, and fallback to the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ceres/ceres.h"

namespace {

struct Spring {
  explicit Spring(double length) : rest(length) {}
  template <typename T>
  bool operator()(const T* a, const T* b, T* r) const {
    const T dx = a[0] - b[0], dy = a[1] - b[1];
    r[0] = sqrt(dx * dx + dy * dy) - rest;
    return true;
  }
  double rest;
};

/// A row of springs; every other vertex is elsewhere in memory.
struct Springs {
  explicit Springs(int count) : vertices(static_cast<std::size_t>(count) * 3) {
    for (int k = 0; k < count; ++k) {
      double* at = Vertex(k);
      at[0] = k + 0.1 * std::sin(3.0 * k);
      at[1] = 0.1 * std::cos(5.0 * k);
    }
    for (int k = 0; k + 1 < count; ++k)
      problem.AddResidualBlock(
          new ceres::AutoDiffCostFunction<Spring, 1, 2, 2>(new Spring(1 + 0.01 * (k % 7))), nullptr,
          Vertex(k), Vertex(k + 1));
    problem.SetParameterBlockConstant(Vertex(0));
  }
  double* Vertex(int k) { return vertices.data() + static_cast<std::size_t>(k) * 3; }
  std::vector<double> vertices;
  ceres::Problem problem;
};

TEST(CeresSolver, EqualFunctorsAreOneTopology) {
  Springs springs(500);
  const double first[2] = {springs.Vertex(0)[0], springs.Vertex(0)[1]};
  ceres::Solver::Options options;
  options.topograd.backend = topograd::Backend::cpu;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &springs.problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  EXPECT_LT(summary.final_cost, 1e-4 * summary.initial_cost);
  EXPECT_EQ(summary.topograd.topologies.size(), 1u);
  EXPECT_EQ(summary.topograd.topologies[0].instances, 499u);
  EXPECT_TRUE(summary.host_notes.empty());
  EXPECT_EQ(summary.num_parameter_blocks, 500);
  EXPECT_EQ(summary.num_parameter_blocks_reduced, 499);
  EXPECT_EQ(summary.num_residuals_reduced, 499);
  EXPECT_EQ(springs.Vertex(0)[0], first[0]);
  EXPECT_EQ(springs.Vertex(0)[1], first[1]);
}

TEST(CeresSolver, OrderingsTakeEffect) {
  ceres::Solver::Options options;
  options.topograd.backend = topograd::Backend::cpu;
  options.linear_solver_type = ceres::SPARSE_SCHUR;
  const auto solve = [&](Springs& springs, const std::vector<int>& group_of_remainder) {
    auto ordering = std::make_shared<ceres::ParameterBlockOrdering>();
    for (int k = 1; k < 10; ++k)
      if (const int group = group_of_remainder[static_cast<std::size_t>(k % 3)]; group >= 0)
        ordering->AddElementToGroup(springs.Vertex(k), group);
    options.linear_solver_ordering = ordering;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &springs.problem, &summary);
    return summary;
  };
  Springs every_third(10), neighbours(10), missing(10), one(10);
  const ceres::Solver::Summary summary = solve(every_third, {0, 1, 2});
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.message;
  EXPECT_TRUE(summary.options_without_effect.empty());
  EXPECT_EQ(summary.linear_solver_type_used, ceres::SPARSE_SCHUR);
  EXPECT_EQ(summary.linear_solver_ordering_given, (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(summary.linear_solver_ordering_used, (std::vector<int>{3, 3, 3}));
  EXPECT_NE(summary.topograd.linear_solver_note.find("3 blocks eliminated, 12 unknowns remain"),
            std::string::npos)
      << summary.topograd.linear_solver_note;
  const ceres::Solver::Summary met = solve(neighbours, {0, 0, 1});
  EXPECT_EQ(met.termination_type, ceres::FAILURE);
  EXPECT_NE(met.message.find("no two blocks meet"), std::string::npos) << met.message;
  EXPECT_EQ(solve(missing, {0, 1, -1}).message,
            "The program has 9 parameter blocks, but the parameter block ordering has 6 parameter "
            "blocks.");
  EXPECT_NE(solve(one, {0, 0, 0}).topograd.linear_solver_note.find("5 blocks eliminated"),
            std::string::npos);
  options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  EXPECT_EQ(solve(one, {0, 0, 1}).options_without_effect,
            std::vector<std::string>{"linear_solver_ordering"});
}

TEST(CeresSolver, EtaSaysHowExactlyStepsAreSolved) {
  for (const ceres::LinearSolverType type : {ceres::ITERATIVE_SCHUR, ceres::CGNR}) {
    const auto solve = [&](double eta) {
      Springs springs(200);
      ceres::Solver::Options options;
      options.topograd.backend = topograd::Backend::cpu;
      options.linear_solver_type = type;
      options.preconditioner_type = ceres::SCHUR_JACOBI;
      options.eta = eta;
      ceres::Solver::Summary summary;
      ceres::Solve(options, &springs.problem, &summary);
      EXPECT_TRUE(summary.IsSolutionUsable()) << summary.message;
      return summary.topograd;
    };
    const topograd::Summary loose = solve(0.5), exact = solve(1e-10);
    EXPECT_LT(loose.num_linear_iterations / loose.num_iterations(),
              exact.num_linear_iterations / exact.num_iterations() / 2)
        << ceres::LinearSolverTypeToString(type);
  }
}

TEST(CeresSolver, IterativeSchurIterates) {
  Springs direct(40), iterative(40);
  ceres::Solver::Options options;
  options.topograd.backend = topograd::Backend::cpu;
  options.eta = 1e-12;
  ceres::Solver::Summary summary;
  options.linear_solver_type = ceres::SPARSE_SCHUR;
  ceres::Solve(options, &direct.problem, &summary);
  EXPECT_EQ(summary.topograd.num_linear_iterations, 0);
  const double expected = summary.final_cost;
  options.linear_solver_type = ceres::ITERATIVE_SCHUR;
  options.preconditioner_type = ceres::SCHUR_JACOBI;
  ceres::Solve(options, &iterative.problem, &summary);
  EXPECT_GT(summary.topograd.num_linear_iterations, 0);
  EXPECT_NEAR(summary.final_cost, expected, 1e-9 * summary.initial_cost);
  EXPECT_EQ(summary.linear_solver_type_used, ceres::ITERATIVE_SCHUR);
  EXPECT_TRUE(summary.options_without_effect.empty());
  const std::string report = summary.FullReport();
  for (const char* line :
       {"\nLinear solver                 ITERATIVE_SCHUR          ITERATIVE_SCHUR\n",
        "\nPreconditioner                   SCHUR_JACOBI             SCHUR_JACOBI\n"})
    EXPECT_NE(report.find(line), report.npos) << line << report;
}

TEST(CeresSolver, ReportsInCeresLayout) {
  Springs springs(10);
  ceres::Solver::Options options;
  options.topograd.backend = topograd::Backend::cpu;
  options.use_inner_iterations = true;
  options.eta = 0.5;
  ceres::Solver::Summary summary;
  EXPECT_EQ(summary.message, "ceres::Solve was not called.");
  ceres::Solve(options, &springs.problem, &summary);
  EXPECT_EQ(summary.options_without_effect,
            (std::vector<std::string>{"use_inner_iterations", "eta"}));
  const std::string brief = summary.BriefReport();
  EXPECT_EQ(brief.find("Ceres Solver Report: Iterations: " +
                       std::to_string(summary.iterations.size()) + ", Initial cost: "),
            0u)
      << brief;
  const std::string report = summary.FullReport();
  for (const char* line :
       {"\nParameter blocks                           10                        9\n",
        "\nParameters                                 20                       18\n",
        "\nMinimizer                        TRUST_REGION\n",
        "\nTrust region strategy     LEVENBERG_MARQUARDT\n",
        "\nLinear solver          SPARSE_NORMAL_CHOLESKY   SPARSE_NORMAL_CHOLESKY\n",
        "\nBackend                                   cpu\n",
        "\nOptions without effect:\n  use_inner_iterations\n  eta\n",
        "\nTermination:                      CONVERGENCE ("})
    EXPECT_NE(report.find(line), report.npos) << line << report;
}

struct Refuses {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = x[0];
    return false;
  }
};

TEST(CeresSolver, FailuresAreReportedNotThrown) {
  double x = 1;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Refuses, 1, 1>(new Refuses), nullptr,
                           &x);
  ceres::Solver::Options options;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE);
  EXPECT_FALSE(summary.IsSolutionUsable());
  EXPECT_FALSE(summary.message.empty());
  EXPECT_EQ(x, 1);
  options.max_num_iterations = -1;
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE);
  EXPECT_EQ(summary.message,
            "Invalid configuration. Solver::Options::max_num_iterations = -1. Violated constraint: "
            "Solver::Options::max_num_iterations >= 0");
}

/// Undefined beyond 3: `return false` there.
class Bounded : public ceres::SizedCostFunction<1, 1> {
 public:
  bool Evaluate(double const* const* parameters, double* residuals,
                double** jacobians) const override {
    const double x = parameters[0][0];
    if (x > 3) return false;
    residuals[0] = x * x * x - 8;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 3 * x * x;
    return true;
  }
};

TEST(CeresSolver, NothingToMoveConverges) {
  double x = 1;
  ceres::Problem problem;
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE);
  problem.AddResidualBlock(new Bounded, nullptr, &x);
  problem.SetParameterBlockConstant(&x);
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::CONVERGENCE);
  EXPECT_EQ(summary.final_cost, 24.5);
  EXPECT_EQ(summary.num_parameters_reduced, 0);
}

struct Distance {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = x[0] - target;
    return true;
  }
  double target;
};

struct Parabola {
  template <typename T>
  bool operator()(const T* x, const T* y, T* r) const {
    r[0] = 10.0 * (y[0] - x[0] * x[0]);
    return true;
  }
};

/// The numbers are those that Ceres 2.1 reports for this program.
TEST(CeresSolver, FixedCostAndCostsOfRejectedStepsAreThoseOfCeres) {
  double a = -1.2, b = 1, c = 3, d = 7;
  ceres::Problem problem;
  const auto parabola = [] {
    return new ceres::AutoDiffCostFunction<Parabola, 1, 1, 1>(new Parabola);
  };
  const auto distance = [] {
    return new ceres::AutoDiffCostFunction<Distance, 1, 1>(new Distance{1});
  };
  problem.AddResidualBlock(parabola(), nullptr, &a, &b);
  problem.AddResidualBlock(distance(), nullptr, &a);
  problem.AddResidualBlock(distance(), new ceres::HuberLoss(0.5), &c);
  problem.AddResidualBlock(parabola(), nullptr, &c, &d);
  problem.SetParameterBlockConstant(&c);
  problem.SetManifold(&d, new ceres::SubsetManifold(1, {0}));  // without coordinates: constant
  ceres::Solver::Options options;
  options.max_num_iterations = 8;
  options.topograd.backend = topograd::Backend::cpu;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_DOUBLE_EQ(summary.fixed_cost, 200.875);
  EXPECT_DOUBLE_EQ(summary.initial_cost, 212.97499999999999);
  EXPECT_EQ(summary.num_parameter_blocks_reduced, 2);
  EXPECT_EQ(summary.num_residual_blocks_reduced, 2);
  const struct {
    bool successful;
    double cost, change;
  } rows[] = {{true, 212.975, 0},
              {false, 972.3795547, -759.4045547},
              {false, 731.3635903, -518.3885903},
              {false, 300.8902599, -87.91525992},
              {true, 203.2668077, 9.708192313},
              {false, 225.5621082, -22.29530056},
              {false, 206.1341707, -2.867363023},
              {true, 202.3128592, 0.9539484848},
              {false, 206.2794581, -3.966598906}};
  ASSERT_EQ(summary.iterations.size(), std::size(rows));
  for (std::size_t k = 0; k < std::size(rows); ++k) {
    EXPECT_EQ(summary.iterations[k].step_is_successful, rows[k].successful) << k;
    EXPECT_NEAR(summary.iterations[k].cost, rows[k].cost, 1e-6) << k;
    EXPECT_NEAR(summary.iterations[k].cost_change, rows[k].change, 1e-6) << k;
  }
}

struct Logarithm {
  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = log(x[0]) - 1.0;
    return true;
  }
};

/// As in Ceres: a trial without a value costs the largest number; a fixed block without one ends
/// the solve before it begins.
TEST(CeresSolver, CostsThatAreNoNumbers) {
  double x = 100;
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Logarithm, 1, 1>(new Logarithm), nullptr,
                           &x);
  ceres::Solver::Options options;
  options.topograd.backend = topograd::Backend::cpu;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  EXPECT_NEAR(x, std::exp(1.0), 1e-3);
  ASSERT_GT(summary.iterations.size(), 1u);
  EXPECT_FALSE(summary.iterations[1].step_is_successful);
  EXPECT_EQ(summary.iterations[1].cost, std::numeric_limits<double>::max());

  double fixed = -1;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Logarithm, 1, 1>(new Logarithm), nullptr,
                           &fixed);
  problem.SetParameterBlockConstant(&fixed);
  ceres::Solve(options, &problem, &summary);
  EXPECT_EQ(summary.termination_type, ceres::FAILURE);
  EXPECT_EQ(summary.message,
            "Evaluation of the residual 1 failed during removal of fixed residual blocks.");
}

TEST(CeresSolver, OverlappingBlocksAreRefused) {
  double x[3] = {1, 2, 3};
  ceres::Problem problem;
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Spring, 1, 2, 2>(new Spring(1)), nullptr,
                           x, x + 1);
  ceres::Solver::Summary summary;
  ceres::Solve(ceres::Solver::Options(), &problem, &summary);
  EXPECT_EQ(summary.message, "Solve: parameter blocks #0 and #1 share memory");
}

TEST(CeresSolver, NamesReturnToTheirEnumerators) {
  ceres::LinearSolverType type = ceres::CGNR;
  EXPECT_TRUE(ceres::StringToLinearSolverType("dense_schur", &type));
  EXPECT_EQ(type, ceres::DENSE_SCHUR);
  EXPECT_STREQ(ceres::LinearSolverTypeToString(type), "DENSE_SCHUR");
  EXPECT_FALSE(ceres::StringToLinearSolverType("none", &type));
  EXPECT_EQ(type, ceres::DENSE_SCHUR);
  EXPECT_STREQ(ceres::TerminationTypeToString(ceres::USER_FAILURE), "USER_FAILURE");
}

}  // namespace
