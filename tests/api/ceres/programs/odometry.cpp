// A robot in a corridor: odometry and ranges to its end. Each range depends on all steps before it,
// as a functor of any number of blocks.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "ceres/ceres.h"
#include "ceres/dynamic_autodiff_cost_function.h"

namespace {

using ceres::AutoDiffCostFunction;
using ceres::CauchyLoss;
using ceres::CostFunction;
using ceres::DynamicAutoDiffCostFunction;
using ceres::LossFunction;
using ceres::Problem;
using ceres::Solve;
using ceres::Solver;
using std::min;
using std::vector;

constexpr int kStride = 10;
constexpr double kCorridor = 30, kSeparation = 0.5, kOdometryDeviation = 0.1,
                 kRangeDeviation = 0.01;

struct OdometryConstraint {
  using OdometryCostFunction = AutoDiffCostFunction<OdometryConstraint, 1, 1>;

  OdometryConstraint(double odometry_mean, double odometry_stddev)
      : odometry_mean(odometry_mean), odometry_stddev(odometry_stddev) {}

  template <typename T>
  bool operator()(const T* const odometry, T* residual) const {
    *residual = (*odometry - odometry_mean) / odometry_stddev;
    return true;
  }

  static OdometryCostFunction* Create(const double odometry_value) {
    return new OdometryCostFunction(new OdometryConstraint(odometry_value, kOdometryDeviation));
  }

  const double odometry_mean, odometry_stddev;
};

struct RangeConstraint {
  using RangeCostFunction = DynamicAutoDiffCostFunction<RangeConstraint, kStride>;

  RangeConstraint(int pose_index, double range_reading, double range_stddev, double corridor_length)
      : pose_index(pose_index),
        range_reading(range_reading),
        range_stddev(range_stddev),
        corridor_length(corridor_length) {}

  template <typename T>
  bool operator()(T const* const* relative_poses, T* residuals) const {
    T global_pose(0);
    for (int i = 0; i <= pose_index; ++i) global_pose += relative_poses[i][0];
    residuals[0] = (global_pose + range_reading - corridor_length) / range_stddev;
    return true;
  }

  static RangeCostFunction* Create(const int pose_index, const double range_reading,
                                   vector<double>* odometry_values,
                                   vector<double*>* parameter_blocks) {
    auto* constraint = new RangeConstraint(pose_index, range_reading, kRangeDeviation, kCorridor);
    auto* cost_function = new RangeCostFunction(constraint);
    parameter_blocks->clear();
    for (int i = 0; i <= pose_index; ++i) {
      parameter_blocks->push_back(&((*odometry_values)[i]));
      cost_function->AddParameterBlock(1);
    }
    cost_function->SetNumResiduals(1);
    return cost_function;
  }

  const int pose_index;
  const double range_reading, range_stddev, corridor_length;
};

}  // namespace

int main(int, char**) {
  std::mt19937 prng(7);
  const auto noise = [&prng](double deviation) {
    double sum = 0;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(prng()) / 4294967296.0;
    return deviation * (sum - 6);
  };
  vector<double> odometry_values, range_readings;
  const int num_steps = static_cast<int>(std::ceil(kCorridor / kSeparation));
  double robot_location = 0;
  for (int i = 0; i < num_steps; ++i) {
    const double actual = min(kSeparation, kCorridor - robot_location);
    robot_location += actual;
    odometry_values.push_back(actual + noise(kOdometryDeviation));
    range_readings.push_back(kCorridor - robot_location + noise(kRangeDeviation));
  }
  Problem problem;
  for (std::size_t i = 0; i < odometry_values.size(); ++i) {
    vector<double*> parameter_blocks;
    RangeConstraint::RangeCostFunction* range_cost_function = RangeConstraint::Create(
        static_cast<int>(i), range_readings[i], &odometry_values, &parameter_blocks);
    problem.AddResidualBlock(range_cost_function, nullptr, parameter_blocks);
    problem.AddResidualBlock(OdometryConstraint::Create(odometry_values[i]), nullptr,
                             &(odometry_values[i]));
  }
  Solver::Options solver_options;
  solver_options.minimizer_progress_to_stdout = false;
  solver_options.function_tolerance = 1e-14;
  Solver::Summary summary;
  Solve(solver_options, &problem, &summary);
  std::printf("cost %.10g\n", summary.final_cost);
  double at = 0;
  for (int i = 0; i < num_steps; ++i) {
    at += odometry_values[i];
    if (i % 7 == 0) std::printf("at%d %.8f\n", i, at);
  }
  return std::abs(at - kCorridor) < 0.1 ? 0 : 1;
}
