// Ceres' interface for C, and the small solver's errors.
#include <gtest/gtest.h>
#include "../../../ir/error.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "ceres/c_api.h"
#include "ceres/ceres.h"
#include "ceres/constants.h"
#include "ceres/tiny_solver_cost_function_adapter.h"

namespace {

// exp(m x + c) - y at a point, with derivatives on request.
int Exponential(void* user_data, double** parameters, double* residuals, double** jacobians) {
  const double* point = static_cast<double*>(user_data);
  const double y = std::exp(parameters[0][0] * point[0] + parameters[1][0]);
  residuals[0] = y - point[1];
  if (jacobians == nullptr) return 1;
  if (jacobians[0] != nullptr) jacobians[0][0] = point[0] * y;
  if (jacobians[1] != nullptr) jacobians[1][0] = y;
  return 1;
}

TEST(CeresC, FitsACurve) {
  std::vector<double> points;
  for (int k = 0; k < 20; ++k) {
    points.push_back(0.25 * k);
    points.push_back(std::exp(0.3 * points.back() + 0.1));
  }
  points[11] += 3;  // an outlier for the loss
  double m = 0, c = 0;
  double* parameters[] = {&m, &c};
  int sizes[] = {1, 1};
  ceres_init();
  ceres_problem_t* problem = ceres_create_problem();
  void* loss = ceres_create_cauchy_loss_function_data(0.01);
  for (std::size_t k = 0; k < points.size(); k += 2)
    EXPECT_NE(
        ceres_problem_add_residual_block(problem, Exponential, &points[k],
                                         ceres_stock_loss_function, loss, 1, 2, sizes, parameters),
        nullptr);
  sizes[0] = 2;
  EXPECT_EQ(ceres_problem_add_residual_block(problem, Exponential, points.data(), nullptr, nullptr,
                                             1, 2, sizes, parameters),
            nullptr);
  testing::internal::CaptureStdout();
  ceres_solve(problem);
  const std::string report = testing::internal::GetCapturedStdout();
  EXPECT_NE(report.find("Termination:"), std::string::npos);
  ceres_free_problem(problem);
  ceres_free_stock_loss_function_data(loss);
  EXPECT_NEAR(m, 0.3, 1e-3);
  EXPECT_NEAR(c, 0.1, 1e-3);
}

TEST(CeresC, StockLossesAreTheClasses) {
  void* data[] = {
      ceres_create_huber_loss_function_data(1.5), ceres_create_softl1_loss_function_data(1.5),
      ceres_create_cauchy_loss_function_data(1.5), ceres_create_arctan_loss_function_data(1.5),
      ceres_create_tolerant_loss_function_data(1.5, 0.5)};
  const double s = 4;
  const double expected[] = {
      2 * 1.5 * 2 - 2.25, 2 * 2.25 * (std::sqrt(1 + s / 2.25) - 1), 2.25 * std::log1p(s / 2.25),
      1.5 * std::atan2(s, 1.5),
      0.5 * std::log1p(std::exp(2.5 / 0.5)) - 0.5 * std::log1p(std::exp(-1.5 / 0.5))};
  for (int k = 0; k < 5; ++k) {
    double rho[3];
    ceres_stock_loss_function(data[k], s, rho);
    EXPECT_NEAR(rho[0], expected[k], 1e-14) << k;
    ceres_free_stock_loss_function_data(data[k]);
  }
  EXPECT_EQ(ceres::constants::pi, std::acos(-1.0));
}

[[deprecated]] int Old CERES_PREVENT_MACRO_SUBSTITUTION() { return 7; }

TEST(CeresMacros, LetDeprecatedNamesPass) {
  CERES_DISABLE_DEPRECATED_WARNING
  EXPECT_EQ(Old(), 7);
  CERES_RESTORE_DEPRECATED_WARNING
}

struct TwoBlocks {
  template <typename T>
  bool operator()(const T* a, const T* b, T* r) const {
    r[0] = a[0] - b[0];
    return true;
  }
};

TEST(CeresTiny, SaysWhichSizesItWants) {
  const ceres::AutoDiffCostFunction<TwoBlocks, 1, 1, 2> cost(new TwoBlocks);
  try {
    ceres::TinySolverCostFunctionAdapter<1, 1> adapter(cost);
    FAIL();
  } catch (const topograd::Error& error) {
    EXPECT_STREQ(error.what(),
                 "TinySolverCostFunctionAdapter: expected one parameter block, got 2");
  }
}

}  // namespace
