// Poses in space from relative measurements, quaternions as Eigen keeps them.
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "Eigen/Geometry"
#include "ceres/autodiff_cost_function.h"
#include "ceres/ceres.h"

namespace {

struct Pose3d {
  Eigen::Vector3d p;
  Eigen::Quaterniond q;
  static std::string name() { return "VERTEX_SE3:QUAT"; }
  EIGEN_MAKE_ALIGNED_OPERATOR_NEW
};

using MapOfPoses =
    std::map<int, Pose3d, std::less<int>, Eigen::aligned_allocator<std::pair<const int, Pose3d>>>;

struct Constraint3d {
  int begin, end;
  Pose3d between;
  Eigen::Matrix<double, 6, 6> information;
  EIGEN_MAKE_ALIGNED_OPERATOR_NEW
};

class PoseError {
 public:
  PoseError(Pose3d measured, Eigen::Matrix<double, 6, 6> sqrt_information)
      : measured_(std::move(measured)), sqrt_information_(std::move(sqrt_information)) {}

  template <typename T>
  bool operator()(const T* const p_a_ptr, const T* const q_a_ptr, const T* const p_b_ptr,
                  const T* const q_b_ptr, T* residuals_ptr) const {
    const Eigen::Map<const Eigen::Matrix<T, 3, 1>> p_a(p_a_ptr), p_b(p_b_ptr);
    const Eigen::Map<const Eigen::Quaternion<T>> q_a(q_a_ptr), q_b(q_b_ptr);
    const Eigen::Quaternion<T> q_a_inverse = q_a.conjugate();
    const Eigen::Quaternion<T> q_ab = q_a_inverse * q_b;
    const Eigen::Matrix<T, 3, 1> p_ab = q_a_inverse * (p_b - p_a);
    const Eigen::Quaternion<T> delta_q = measured_.q.template cast<T>() * q_ab.conjugate();
    Eigen::Map<Eigen::Matrix<T, 6, 1>> residuals(residuals_ptr);
    residuals.template block<3, 1>(0, 0) = p_ab - measured_.p.template cast<T>();
    residuals.template block<3, 1>(3, 0) = T(2.0) * delta_q.vec();
    residuals.applyOnTheLeft(sqrt_information_.template cast<T>());
    return true;
  }

  static ceres::CostFunction* Create(const Pose3d& measured,
                                     const Eigen::Matrix<double, 6, 6>& sqrt_information) {
    return new ceres::AutoDiffCostFunction<PoseError, 6, 3, 4, 3, 4>(
        new PoseError(measured, sqrt_information));
  }
  EIGEN_MAKE_ALIGNED_OPERATOR_NEW

 private:
  const Pose3d measured_;
  const Eigen::Matrix<double, 6, 6> sqrt_information_;
};

Pose3d Truth(int k) {
  const double a = 2 * M_PI * k / 12;
  Pose3d pose;
  pose.p = Eigen::Vector3d(3 * std::cos(a), 3 * std::sin(a), 0.4 * std::sin(2 * a));
  pose.q = Eigen::AngleAxisd(a, Eigen::Vector3d::UnitZ()) *
           Eigen::AngleAxisd(0.2 * std::sin(a), Eigen::Vector3d::UnitX());
  return pose;
}

Pose3d Between(const Pose3d& a, const Pose3d& b) {
  Pose3d out;
  out.q = a.q.conjugate() * b.q;
  out.p = a.q.conjugate() * (b.p - a.p);
  return out;
}

}  // namespace

int main(int, char**) {
  MapOfPoses poses;
  std::vector<Constraint3d, Eigen::aligned_allocator<Constraint3d>> constraints;
  for (int k = 0; k < 12; ++k) {
    Pose3d pose = Truth(k);
    if (k > 0) {
      pose.p += 0.2 * Eigen::Vector3d(std::sin(3.0 * k), std::cos(5.0 * k), std::sin(7.0 * k));
      pose.q = pose.q * Eigen::Quaterniond(
                            Eigen::AngleAxisd(0.15 * std::cos(4.0 * k), Eigen::Vector3d::UnitY()));
    }
    poses[k] = pose;
    for (const int step : {1, 5}) {
      Constraint3d c;
      c.begin = k;
      c.end = (k + step) % 12;
      c.between = Between(Truth(c.begin), Truth(c.end));
      c.between.p(0) += 0.01 * std::sin(11.0 * k + step);
      c.information = 25 * Eigen::Matrix<double, 6, 6>::Identity();
      c.information(0, 0) = 100;
      c.information(1, 0) = c.information(0, 1) = 5;
      constraints.push_back(c);
    }
  }

  ceres::LossFunction* loss_function = new ceres::HuberLoss(2.0);
  ceres::Manifold* quaternion_manifold = new ceres::EigenQuaternionManifold;
  ceres::Problem problem;
  for (const auto& constraint : constraints) {
    const auto begin = poses.find(constraint.begin), end = poses.find(constraint.end);
    const Eigen::Matrix<double, 6, 6> sqrt_information = constraint.information.llt().matrixL();
    problem.AddResidualBlock(PoseError::Create(constraint.between, sqrt_information), loss_function,
                             begin->second.p.data(), begin->second.q.coeffs().data(),
                             end->second.p.data(), end->second.q.coeffs().data());
    problem.SetManifold(begin->second.q.coeffs().data(), quaternion_manifold);
    problem.SetManifold(end->second.q.coeffs().data(), quaternion_manifold);
  }
  problem.SetParameterBlockConstant(poses.begin()->second.p.data());
  problem.SetParameterBlockConstant(poses.begin()->second.q.coeffs().data());

  ceres::Solver::Options options;
  options.max_num_iterations = 200;
  options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::printf("usable %d\ncost %.10g\n", summary.IsSolutionUsable() ? 1 : 0, summary.final_cost);
  for (const auto& [id, pose] : poses)
    std::printf("pose%d-x %.6f\npose%d-w %.6f\n", id, pose.p(0), id, pose.q.w());
  std::printf("effective %d\n", summary.num_effective_parameters_reduced);
  return summary.IsSolutionUsable() && summary.final_cost < 0.5 ? 0 : 1;
}
