// Functors that are simulations or loop over all data, as programs for Ceres have them: beside
// derivatives by hand in long double, and which scalars they are called with.
#include <ceres/ceres.h>

#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace {

using Real = long double;
using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;

constexpr double kStep = 0.01;

/// Steps that functors made with Values and with Jets.
struct Steps {
  std::size_t traced = 0, by_jets = 0;

  template <class T>
  void count() {
    if constexpr (std::is_same_v<T, topograd::Value>) {
      ++traced;
    } else if constexpr (!std::is_same_v<T, double>) {
      ++by_jets;
    }
  }
};

/// Logistic growth by Euler's steps, less what was measured.
struct Growth {
  std::vector<double> seen;
  Steps* steps;

  template <typename T>
  bool operator()(const T* const p, T* residuals) const {
    T y = T(0.3);
    for (std::size_t k = 0; k < seen.size(); ++k) {
      steps->count<T>();
      y = y + T(kStep) * (p[0] - p[1] * y + p[2] * y * y);
      residuals[k] = y - T(seen[k]);
    }
    return true;
  }
};

/// The same for callers that want no exceptions.
struct QuietGrowth {
  Growth growth;
  template <typename T>
  bool operator()(const T* const p, T* residuals) const noexcept {
    return growth(p, residuals);
  }
};

/// A decay and a wave at 2,000 times, with an argument for each block.
struct Curve {
  std::vector<double> seen;
  Steps* steps;

  template <typename T>
  bool operator()(T const* const* blocks, T* residuals) const {
    using std::exp;
    using std::sin;
    const T *a = blocks[0], *b = blocks[1];
    for (std::size_t k = 0; k < seen.size(); ++k) {
      steps->count<T>();
      const T t = T(0.001 * static_cast<double>(k));
      residuals[k] = a[0] * exp(-a[1] * t) + b[0] * sin(b[1] * t) - T(seen[k]);
    }
    return true;
  }
};

/// Residuals of growth, and derivatives by the recursion of the steps.
void linearize_growth(const std::vector<double>& seen, const Vector& p, Vector& r, Matrix& J) {
  const auto count = static_cast<Eigen::Index>(seen.size());
  r.resize(count), J.resize(count, 3);
  Real y = 0.3;
  Vector d = Vector::Zero(3);
  for (Eigen::Index k = 0; k < count; ++k) {
    const Vector by{{1, -y, y * y}};
    d += static_cast<Real>(kStep) * (by + (2 * p[2] * y - p[1]) * d);
    y += static_cast<Real>(kStep) * (p[0] - p[1] * y + p[2] * y * y);
    r[k] = y - static_cast<Real>(seen[static_cast<std::size_t>(k)]);
    J.row(k) = d.transpose();
  }
}

void linearize_curve(const std::vector<double>& seen, const Vector& p, Vector& r, Matrix& J) {
  const auto count = static_cast<Eigen::Index>(seen.size());
  r.resize(count), J.resize(count, 4);
  for (Eigen::Index k = 0; k < count; ++k) {
    const Real t = static_cast<Real>(0.001) * static_cast<Real>(k);
    const Real e = std::exp(-p[1] * t), s = std::sin(p[3] * t), c = std::cos(p[3] * t);
    r[k] = p[0] * e + p[2] * s - static_cast<Real>(seen[static_cast<std::size_t>(k)]);
    J.row(k) << e, -p[0] * t * e, s, p[2] * t * c;
  }
}

/// The minimum beside a start that is near it, by Gauss and Newton's steps.
template <class Linearize>
Vector minimum(Vector p, const Linearize& linearize) {
  for (int k = 0; k < 30; ++k) {
    Vector r;
    Matrix J;
    linearize(p, r, J);
    p -= J.colPivHouseholderQr().solve(r);
  }
  return p;
}

std::vector<double> growth_data(std::size_t count, double phase) {
  std::vector<double> seen;
  double y = 0.3;
  for (std::size_t k = 0; k < count; ++k) {
    y += kStep * (1.0 - 0.8 * y - 0.1 * y * y);
    seen.push_back(y + 0.01 * std::sin(7.0 * static_cast<double>(k) + phase));
  }
  return seen;
}

ceres::Solver::Options exact() {
  ceres::Solver::Options options;
  options.function_tolerance = 1e-15;
  options.gradient_tolerance = 1e-13;
  options.parameter_tolerance = 1e-13;
  options.logging_type = ceres::SILENT;
  return options;
}

void expect_near(const double* x, const Vector& expected) {
  for (Eigen::Index k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(x[k], static_cast<double>(expected[k]), 1e-7) << k;
}

TEST(CeresSimulation, EulerStepsRunWithJets) {
  Steps steps;
  const std::vector<double> seen = growth_data(1000, 0);
  double x[3] = {0.8, 0.6, 0};
  ceres::Problem problem;
  problem.AddResidualBlock(
      new ceres::AutoDiffCostFunction<Growth, 1000, 3>(new Growth{seen, &steps}), nullptr, x);
  ceres::Solver::Summary summary;
  ceres::Solve(exact(), &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  expect_near(x, minimum(Vector{{1, 0.8, -0.1}}, [&](const Vector& p, Vector& r, Matrix& J) {
                linearize_growth(seen, p, r, J);
              }));
  // The trace ends before its 1,000 steps do, and compiled code goes on.
  EXPECT_LT(steps.traced, 250U);
  EXPECT_GE(steps.by_jets, 3000U);
  ASSERT_EQ(summary.host_notes.size(), 1U);
  EXPECT_NE(summary.host_notes[0].find("more than 1024 operations"), std::string::npos)
      << summary.host_notes[0];
}

TEST(CeresSimulation, FunctorsOfThousandsOfRowsRunWithJets) {
  Steps steps;
  std::vector<double> seen;
  for (int k = 0; k < 2000; ++k) {
    const double t = 0.001 * k;
    seen.push_back(2 * std::exp(-1.5 * t) + 0.5 * std::sin(3 * t) + 0.01 * std::sin(7.0 * k));
  }
  double a[2] = {1.5, 1.2}, b[2] = {0.3, 2.7};
  ceres::Problem problem;
  auto* cost = new ceres::DynamicAutoDiffCostFunction<Curve, 4>(new Curve{seen, &steps});
  cost->AddParameterBlock(2);
  cost->AddParameterBlock(2);
  cost->SetNumResiduals(2000);
  problem.AddResidualBlock(cost, new ceres::HuberLoss(100.0), a, b);
  ceres::Solver::Summary summary;
  ceres::Solve(exact(), &problem, &summary);
  EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
  const double x[4] = {a[0], a[1], b[0], b[1]};
  expect_near(x, minimum(Vector{{2, 1.5, 0.5, 3}}, [&](const Vector& p, Vector& r, Matrix& J) {
                linearize_curve(seen, p, r, J);
              }));
  EXPECT_LT(steps.traced, 250U);
  EXPECT_GE(steps.by_jets, 4000U);
}

TEST(CeresSimulation, ManyBlocksAndFunctorsWithoutExceptionsAreTraced) {
  constexpr std::size_t kSteps = 300;
  for (const bool quiet : {false, true}) {
    SCOPED_TRACE(quiet);
    const std::size_t blocks = quiet ? 2 : 20;
    Steps steps;
    double x[3] = {0.8, 0.6, 0};
    ceres::Problem problem;
    std::vector<std::vector<double>> seen;
    for (std::size_t k = 0; k < blocks; ++k) {
      seen.push_back(growth_data(kSteps, static_cast<double>(k)));
      const Growth growth{seen.back(), &steps};
      ceres::CostFunction* cost = nullptr;
      if (quiet) {
        cost = new ceres::AutoDiffCostFunction<QuietGrowth, kSteps, 3>(new QuietGrowth{growth});
      } else {
        cost = new ceres::AutoDiffCostFunction<Growth, kSteps, 3>(new Growth(growth));
      }
      problem.AddResidualBlock(cost, nullptr, x);
    }
    ceres::Solver::Summary summary;
    ceres::Solve(exact(), &problem, &summary);
    EXPECT_TRUE(summary.IsSolutionUsable()) << summary.FullReport();
    expect_near(x, minimum(Vector{{1, 0.8, -0.1}}, [&](const Vector& p, Vector& r, Matrix& J) {
                  r.resize(0), J.resize(0, 3);
                  for (const std::vector<double>& one : seen) {
                    Vector part;
                    Matrix of_part;
                    linearize_growth(one, p, part, of_part);
                    const Eigen::Index before = r.size();
                    r.conservativeResize(before + part.size());
                    J.conservativeResize(before + part.size(), 3);
                    r.tail(part.size()) = part;
                    J.bottomRows(part.size()) = of_part;
                  }
                }));
    EXPECT_EQ(steps.traced, blocks * kSteps);
    EXPECT_EQ(steps.by_jets, 0U);
  }
}

}  // namespace
