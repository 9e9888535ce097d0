// Rotations against Eigen's, on doubles, Jets and traced Values.
#include <gtest/gtest.h>
#include "../../../frontend/problem.hpp"
#include "../../../solver/evaluator.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ceres/jet.h"
#include "ceres/rotation.h"

namespace {

using Eigen::Vector3d;

/// Axis-angle vectors: ordinary, tiny, zero, near pi.
std::vector<Vector3d> Rotations() {
  std::vector<Vector3d> rotations = {{0, 0, 0},    {1e-20, 0, 0},  {1e-9, -2e-9, 0},
                                     {1e-5, 0, 0}, {0, 3.1415, 0}, {0, 0, -M_PI + 1e-9}};
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 20; ++k)
    rotations.emplace_back(normal(random), normal(random), normal(random));
  return rotations;
}

Eigen::Quaterniond ByEigen(const Vector3d& angle_axis) {
  const double angle = angle_axis.norm();
  if (angle < 1e-150) return Eigen::Quaterniond::Identity();
  return Eigen::Quaterniond(Eigen::AngleAxisd(angle, angle_axis / angle));
}

constexpr double kTolerance = 4e-15;

TEST(Rotation, QuaternionsAndMatricesAreEigens) {
  for (const Vector3d& a : Rotations()) {
    const Eigen::Quaterniond expected = ByEigen(a);
    double q[4], columns[9], rows[9];
    ceres::AngleAxisToQuaternion(a.data(), q);
    EXPECT_NEAR((Eigen::Vector4d(q[1], q[2], q[3], q[0]) - expected.coeffs()).norm(), 0,
                kTolerance);
    ceres::AngleAxisToRotationMatrix(a.data(), columns);
    const Eigen::Matrix3d R = expected.toRotationMatrix();
    EXPECT_NEAR((Eigen::Map<Eigen::Matrix3d>(columns) - R).norm(), 0, 2 * kTolerance) << a;
    ceres::AngleAxisToRotationMatrix(a.data(), ceres::RowMajorAdapter3x3(rows));
    EXPECT_NEAR((Eigen::Map<Eigen::Matrix3d>(rows).transpose() - R).norm(), 0, 2 * kTolerance);
    const double scaled[4] = {3 * q[0], 3 * q[1], 3 * q[2], 3 * q[3]};
    ceres::QuaternionToRotation(scaled, rows);
    EXPECT_NEAR((Eigen::Map<Eigen::Matrix3d>(rows).transpose() - R).norm(), 0, 2 * kTolerance);
    ceres::QuaternionToScaledRotation(scaled, rows);
    EXPECT_NEAR((Eigen::Map<Eigen::Matrix3d>(rows).transpose() - 9 * R).norm(), 0, 18 * kTolerance);
  }
}

TEST(Rotation, ConversionsReturn) {
  for (const Vector3d& a : Rotations()) {
    if (a.norm() > M_PI) continue;
    double q[4], R[9], by_quaternion[3], by_matrix[3];
    ceres::AngleAxisToQuaternion(a.data(), q);
    ceres::QuaternionToAngleAxis(q, by_quaternion);
    EXPECT_NEAR((Vector3d(by_quaternion) - a).norm(), 0, kTolerance) << a.transpose();
    const double other[4] = {-q[0], -q[1], -q[2], -q[3]};
    ceres::QuaternionToAngleAxis(other, by_quaternion);
    EXPECT_NEAR((Vector3d(by_quaternion) - a).norm(), 0, kTolerance) << a.transpose();
    ceres::AngleAxisToRotationMatrix(a.data(), R);
    ceres::RotationMatrixToAngleAxis(R, by_matrix);
    EXPECT_NEAR((Vector3d(by_matrix) - a).norm(), 0, 4 * kTolerance) << a.transpose();
  }
}

TEST(Rotation, PointsTurnAsMatricesSay) {
  const Vector3d p(0.3, -1.2, 2.5);
  for (const Vector3d& a : Rotations()) {
    const Vector3d expected = ByEigen(a) * p;
    double q[4], turned[3];
    ceres::AngleAxisRotatePoint(a.data(), p.data(), turned);
    EXPECT_NEAR((Vector3d(turned) - expected).norm(), 0, 3 * kTolerance) << a.transpose();
    ceres::AngleAxisToQuaternion(a.data(), q);
    ceres::UnitQuaternionRotatePoint(q, p.data(), turned);
    EXPECT_NEAR((Vector3d(turned) - expected).norm(), 0, 3 * kTolerance) << a.transpose();
    for (double& component : q) component *= 2;
    ceres::QuaternionRotatePoint(q, p.data(), turned);
    EXPECT_NEAR((Vector3d(turned) - expected).norm(), 0, 3 * kTolerance) << a.transpose();
  }
}

TEST(Rotation, ProductsComposeAndEulerAnglesAreDegrees) {
  const Eigen::Quaterniond z = ByEigen({0.3, 0.2, -0.7}), w = ByEigen({-1, 0.5, 0.1});
  const double za[4] = {z.w(), z.x(), z.y(), z.z()}, wa[4] = {w.w(), w.x(), w.y(), w.z()};
  double zw[4], R[9];
  ceres::QuaternionProduct(za, wa, zw);
  EXPECT_NEAR((Eigen::Vector4d(zw[1], zw[2], zw[3], zw[0]) - (z * w).coeffs()).norm(), 0, 1e-15);
  const double euler[3] = {10, -20, 30};
  ceres::EulerAnglesToRotationMatrix(euler, 3, R);
  const double degree = M_PI / 180;
  const Eigen::Matrix3d expected = (Eigen::AngleAxisd(30 * degree, Vector3d::UnitZ()) *
                                    Eigen::AngleAxisd(-20 * degree, Vector3d::UnitY()) *
                                    Eigen::AngleAxisd(10 * degree, Vector3d::UnitX()))
                                       .toRotationMatrix();
  EXPECT_NEAR((Eigen::Map<Eigen::Matrix3d>(R).transpose() - expected).norm(), 0, 1e-15);
}

/// Every function of the header in one chain, from an axis-angle vector and a point.
struct Chain {
  template <class T>
  bool operator()(const T* angle_axis, const T* point, T* out) const {
    T q[4], R[9], b[3], p[3], s[3];
    ceres::AngleAxisRotatePoint(angle_axis, point, p);
    ceres::AngleAxisToQuaternion(angle_axis, q);
    ceres::QuaternionRotatePoint(q, p, s);
    ceres::AngleAxisToRotationMatrix(angle_axis, R);
    ceres::RotationMatrixToAngleAxis(R, b);
    ceres::CrossProduct(b, s, out);
    for (int k = 0; k < 3; ++k) out[k] += ceres::DotProduct(p, point) * b[k] + s[k];
    return true;
  }
};

TEST(Rotation, ValuesAndJetsAgreeWithDifferences) {
  const Vector3d p(0.3, -1.2, 2.5);
  for (const Vector3d& a : Rotations()) {
    if (a.norm() > 3) continue;  // the conversion from matrices jumps at pi
    std::vector<double> x = {a[0], a[1], a[2], p[0], p[1], p[2]};
    using Number = ceres::Jet<double, 6>;
    std::array<Number, 6> jets;
    for (int k = 0; k < 6; ++k)
      jets[static_cast<std::size_t>(k)] = Number(x[static_cast<std::size_t>(k)], k);
    std::array<Number, 3> by_jets;
    Chain()(static_cast<const Number*>(jets.data()), static_cast<const Number*>(jets.data() + 3),
            by_jets.data());

    topograd::Problem problem;
    const topograd::Parameters parameters = problem.add_parameters(x, 3);
    topograd::Value leaves[6], rows[3];
    for (int k = 0; k < 6; ++k) leaves[k] = parameters(static_cast<std::size_t>(k / 3), k % 3);
    Chain()(static_cast<const topograd::Value*>(leaves),
            static_cast<const topograd::Value*>(leaves + 3), rows);
    problem.add_residual(rows);
    topograd::Evaluator evaluator(problem, {.backend = topograd::Backend::cpu});
    const Eigen::VectorXd values = evaluator.residuals();
    const Eigen::MatrixXd J = evaluator.jacobian();

    for (int r = 0; r < 3; ++r) {
      const Number& jet = by_jets[static_cast<std::size_t>(r)];
      EXPECT_NEAR(values[r], jet.a, 1e-13) << a.transpose();
      for (int k = 0; k < 6; ++k) {
        EXPECT_NEAR(J(r, k), jet.v[k], 1e-11) << a.transpose() << ", " << r << ", " << k;
        const double h = 1e-5;
        std::array<std::array<double, 3>, 2> shifted;
        for (int side = 0; side < 2; ++side) {
          std::vector<double> y = x;
          y[static_cast<std::size_t>(k)] += side == 0 ? h : -h;
          Chain()(y.data(), y.data() + 3, shifted[static_cast<std::size_t>(side)].data());
        }
        const auto row = static_cast<std::size_t>(r);
        EXPECT_NEAR(jet.v[k], (shifted[0][row] - shifted[1][row]) / (2 * h), 1e-8) << a.transpose();
      }
    }
  }
}

/// The axes of a system by its name: "XYZ".
template <class System>
void CompareWithEigen(const std::string& name, bool intrinsic) {
  const auto turn = [&](std::size_t k, double angle) {
    return Eigen::AngleAxisd(angle, Vector3d::Unit(name[k] - 'X'));
  };
  const bool proper = name[0] == name[2];
  for (const Vector3d& given :
       {Vector3d(0.4, 0.7, -2.1), Vector3d(-3, 1.2, 3), Vector3d(0, 1e-7, 0),
        Vector3d(0.3, M_PI / 2, 0.2), Vector3d(2, 0, 0.5)}) {
    const Eigen::Matrix3d expected =
        intrinsic ? (turn(0, given[0]) * turn(1, given[1]) * turn(2, given[2])).toRotationMatrix()
                  : (turn(2, given[2]) * turn(1, given[1]) * turn(0, given[0])).toRotationMatrix();
    Eigen::Matrix<double, 3, 3, Eigen::RowMajor> R, again;
    ceres::EulerAnglesToRotation<System>(given.data(), R.data());
    EXPECT_NEAR((R - expected).norm(), 0, kTolerance) << name << intrinsic;
    double found[3];
    ceres::RotationMatrixToEulerAngles<System>(R.data(), found);
    ceres::EulerAnglesToRotation<System>(found, again.data());
    EXPECT_NEAR((again - R).norm(), 0, kTolerance) << name << intrinsic << " " << given;
    // One of two axes coincides with another one at these angles of the second turn.
    const double lock = proper ? std::sin(given[1]) : std::cos(given[1]);
    if (std::abs(lock) < 1e-3) continue;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(found[k], given[k], 1e-14) << name << intrinsic << k;
  }
}

TEST(Rotation, EulerAnglesAreTurnsAboutAxes) {
#define TG_SYSTEM(name)                                  \
  CompareWithEigen<ceres::Intrinsic##name>(#name, true); \
  CompareWithEigen<ceres::Extrinsic##name>(#name, false);
  TG_SYSTEM(XYZ)
  TG_SYSTEM(XYX)
  TG_SYSTEM(XZY)
  TG_SYSTEM(XZX)
  TG_SYSTEM(YZX)
  TG_SYSTEM(YZY)
  TG_SYSTEM(YXZ)
  TG_SYSTEM(YXY)
  TG_SYSTEM(ZXY)
  TG_SYSTEM(ZXZ)
  TG_SYSTEM(ZYX)
  TG_SYSTEM(ZYZ)
#undef TG_SYSTEM
}

TEST(Rotation, EulerAnglesHaveDerivatives) {
  using J3 = ceres::Jet<double, 3>;
  const J3 angles[3] = {J3(0.4, 0), J3(0.7, 1), J3(-2.1, 2)};
  J3 R[9], found[3];
  ceres::EulerAnglesToRotation<ceres::IntrinsicZXY>(angles, R);
  ceres::RotationMatrixToEulerAngles<ceres::IntrinsicZXY>(R, found);
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(found[k].a, angles[k].a, 1e-14);
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(found[k].v[c], k == c, 1e-14) << k << c;
  }
}

}  // namespace
