// The smallest eigenvalue against Eigen's solver, differences, and projectors of repeated ones.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../frontend/mat.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/evaluate.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/Geometry>
#include <cmath>
#include <random>

#include "evaluated.hpp"

namespace topograd::test {
namespace {

using Eigen::Matrix3d;
using Eigen::Vector3d;

std::vector<Value> smallest(const Parameters& x) {
  Mat3 m;
  for (std::size_t k = 0; k < 9; ++k) m.entries[k] = x[k];
  return {smallest_eigenvalue(m)};
}

Numbers entries(const Matrix3d& m) {
  Numbers result;
  for (int k = 0; k < 9; ++k) result.push_back(m(k / 3, k % 3));
  return result;
}

Matrix3d random_rotation(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Eigen::Quaterniond q(normal(random), normal(random), normal(random), normal(random));
  return q.normalized().toRotationMatrix();
}

/// Q diag(values) Qᵀ, symmetric to the last bit.
Matrix3d with_eigenvalues(const Vector3d& values, const Matrix3d& q) {
  const Matrix3d m = q * values.asDiagonal() * q.transpose();
  return (m + m.transpose()) / 2;
}

TEST(SmallestEigenvalue, OfDistinctEigenvaluesIsThatOfEigenWithItsProjector) {
  std::mt19937_64 random(1);
  const Vector3d rows[] = {{1, 2, 3},
                           {-5, 0, 1},
                           {1e-3, 1, 1},
                           {1, 1.0001, 1.0002},
                           {-2, -1.9999, 7},
                           {0, 1e-8, 1},
                           {1e100, 2e100, 4e100},
                           {1e-200, 3e-200, 4e-200},
                           {-1, -0.5, 1},
                           {2, 5, 5},
                           {-4, 4, 4}};
  for (const Vector3d& values : rows) {
    for (int k = 0; k < 20; ++k) {
      const Matrix3d a = with_eigenvalues(values, random_rotation(random));
      SCOPED_TRACE(testing::Message() << values.transpose());
      const Evaluated e = evaluate(entries(a), smallest);
      const double scale = values.cwiseAbs().maxCoeff();
      const Eigen::SelfAdjointEigenSolver<Matrix3d> reference(a / scale);
      EXPECT_NEAR(e.rows[0] / scale, reference.eigenvalues()[0], 4e-15);
      const Vector3d v = reference.eigenvectors().col(0);
      // Rounding rotates an eigenvector by its unit over the gap.
      const double gap = reference.eigenvalues()[1] - reference.eigenvalues()[0];
      for (int r = 0; r < 9; ++r)
        EXPECT_NEAR(e.jacobian[r], v[r / 3] * v[r % 3], 1e-14 + 4e-15 / gap);
    }
  }
}

// Eigenvectors near an axis have small components, which keep their digits.
TEST(SmallestEigenvalue, ProjectorsKnowSmallComponents) {
  constexpr double kTilt = 1e-9;
  for (int axis = 0; axis < 3; ++axis) {
    for (const int side : {1, 2}) {
      // v₀ along the axis and a little to the side; 0 is its eigenvalue, and 3 that of the rest.
      const int other = (axis + side) % 3, rest = 3 - axis - other;
      Matrix3d q = Matrix3d::Zero();
      q(axis, 0) = q(other, 1) = std::cos(kTilt);
      q(other, 0) = std::sin(kTilt);
      q(axis, 1) = -std::sin(kTilt);
      q(rest, 2) = 1;
      const Evaluated e = evaluate(entries(with_eigenvalues({0, 1, 3}, q)), smallest);
      SCOPED_TRACE(testing::Message() << axis << ", " << other);
      for (int r = 0; r < 9; ++r) EXPECT_NEAR(e.jacobian[r], q(r / 3, 0) * q(r % 3, 0), 1e-14) << r;
    }
  }
}

// The same between eigenvectors of the others that lie along no axis, with small components of both
// signs.
TEST(SmallestEigenvalue, ProjectorsKnowSmallComponentsOfAnySign) {
  for (int axis = 0; axis < 3; ++axis) {
    for (const double a : {1e-9, -1e-9}) {
      for (const double b : {0.0, 3e-10, -3e-10, 2e-9, -2e-9}) {
        Matrix3d q;
        q.col(0) = Vector3d::Unit(axis) + a * Vector3d::Unit((axis + 1) % 3) +
                   b * Vector3d::Unit((axis + 2) % 3);  // of length 1 up to 1e-17
        const Vector3d side = Vector3d::Unit((axis + 1) % 3).cross(q.col(0)).normalized();
        q.col(1) = std::cos(0.7) * side + std::sin(0.7) * q.col(0).cross(side);
        q.col(2) = q.col(0).cross(q.col(1));
        const Evaluated e = evaluate(entries(with_eigenvalues({0, 1, 3}, q)), smallest);
        SCOPED_TRACE(testing::Message() << axis << ", " << a << ", " << b);
        for (int r = 0; r < 9; ++r)
          EXPECT_NEAR(e.jacobian[r], q(r / 3, 0) * q(r % 3, 0), 2e-15) << r;
      }
    }
  }
}

TEST(SmallestEigenvalue, DerivativeIsThatOfDifferences) {
  const Numbers rows[] = {{1, 0.5, -0.25, 0.5, 2, 0.75, -0.25, 0.75, -1},
                          {4, 1, 2, 1, 5, 1, 2, 1, 6},
                          {1, 2, 3, 4, 5, 6, 7, 8, 10}};  // not symmetric: (A + A^T) / 2
  for (const Numbers& a : rows) {
    const Evaluated e = evaluate(a, smallest);
    for (int k = 0; k < 9; ++k) {
      const auto at = [&](double step) {
        Matrix3d m;
        for (int r = 0; r < 9; ++r) m(r / 3, r % 3) = a[r];
        m(k / 3, k % 3) += step;
        return Eigen::SelfAdjointEigenSolver<Matrix3d>((m + m.transpose()) / 2).eigenvalues()[0];
      };
      // Four-point differences: error of order h^4.
      constexpr double h = 1e-3;
      const double expected = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      EXPECT_NEAR(e.jacobian[k], expected, 2e-11);
    }
  }
}

/// E : H : E of the smallest eigenvalue at `a` by the Hessian of its expression.
double second_derivative(const Numbers& a, const Numbers& along) {
  Numbers values = a;
  Problem problem;
  problem.add_energy(smallest(problem.add_parameters(values))[0]);
  const ir::Program& f = problem.topology(0).program;
  const ir::Program hvp = autodiff::hvp(f, autodiff::all_slots(f));
  const ir::Batch& batch = problem.batch(0);
  Numbers x, p;
  for (std::uint32_t k = 0; k < batch.parameter_columns(); ++k) {
    x.push_back(a[batch.index(0, k)]);
    p.push_back(along[batch.index(0, k)]);
  }
  const Numbers product = ir::evaluate<double>(
      hvp, {.parameters = x, .data = {}, .uniforms = {}, .tangents = p, .seeds = {}});
  double sum = 0;
  for (std::size_t k = 0; k < p.size(); ++k) sum += product[k] * p[k];
  return sum;
}

// λ″ along E is −2 Σ (v_kᵀ E v)² / (λ_k − λ), with v of the smallest and v_k of the other
// eigenvalues.
TEST(SmallestEigenvalue, SecondDerivativeIsThatOfPerturbationTheory) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> number(-1, 1);
  const Vector3d rows[] = {{1, 2, 3},       {-5, 0, 1},         {1, 1.01, 5}, {2, 5, 5},
                           {1e6, 3e6, 4e6}, {1e-9, 3e-9, 7e-9}, {-3, -2, -1}, {0, 1e-3, 1}};
  for (const Vector3d& values : rows) {
    for (int k = 0; k < 10; ++k) {
      SCOPED_TRACE(testing::Message() << values.transpose());
      const Matrix3d a = with_eigenvalues(values, random_rotation(random));
      Matrix3d e;
      for (double& v : e.reshaped()) v = number(random);
      const Eigen::SelfAdjointEigenSolver<Matrix3d> reference(a);
      const Matrix3d in_basis = reference.eigenvectors().transpose() * ((e + e.transpose()) / 2) *
                                reference.eigenvectors();
      double expected = 0;
      for (int j = 1; j < 3; ++j)
        expected -= 2 * in_basis(j, 0) * in_basis(j, 0) /
                    (reference.eigenvalues()[j] - reference.eigenvalues()[0]);
      EXPECT_NEAR(second_derivative(entries(a), entries(e)), expected,
                  1e-8 * std::abs(expected) + 1e-11 / values.cwiseAbs().maxCoeff());
    }
  }
}

TEST(SmallestEigenvalue, SecondDerivativeOfARepeatedOneIsZero) {
  std::mt19937_64 random(5);
  for (const Vector3d& values : {Vector3d(1, 1, 3), Vector3d(2, 2, 2), Vector3d(0, 0, 0)}) {
    const Matrix3d a = with_eigenvalues(values, random_rotation(random));
    EXPECT_EQ(second_derivative(entries(a), {1, 2, 3, 4, 5, 6, 7, 8, 9}), 0);
  }
}

TEST(SmallestEigenvalue, OfRepeatedEigenvaluesHasTheMeanOverTheEigenspace) {
  std::mt19937_64 random(2);
  const struct {
    Vector3d values;
    int dimension;
  } rows[] = {{{1, 1, 3}, 2},   {{-2, -2, 5}, 2},    {{0, 0, 1}, 2},    {{1, 1, 1.001}, 2},
              {{7, 7, 7}, 3},   {{0, 0, 0}, 3},      {{-3, -3, -3}, 3}, {{1e-150, 1e-150, 1}, 2},
              {{-1, -1, 0}, 2}, {{1e6, 1e6, 2e6}, 2}};
  for (const auto& row : rows) {
    for (int k = 0; k < 50; ++k) {
      SCOPED_TRACE(testing::Message() << row.values.transpose());
      const Matrix3d q = random_rotation(random);
      const Evaluated e = evaluate(entries(with_eigenvalues(row.values, q)), smallest);
      EXPECT_NEAR(e.rows[0], row.values[0], 4e-15 * row.values.cwiseAbs().maxCoeff());
      const Matrix3d p = q.leftCols(row.dimension) * q.leftCols(row.dimension).transpose();
      const double turned = row.values[2] == 1.001 ? 1e-11 : 1e-14;
      for (int r = 0; r < 9; ++r)
        EXPECT_NEAR(e.jacobian[r], p(r / 3, r % 3) / row.dimension, turned);
    }
  }
}

TEST(SmallestEigenvalue, InSinglePrecisionEqualMeansWithinItsRounding) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 50; ++k) {
    const Matrix3d q = random_rotation(random);
    const Evaluated e = evaluate_single(entries(with_eigenvalues({1, 1, 3}, q)), smallest);
    EXPECT_NEAR(e.rows[0], 1.0, 2e-6);
    const Matrix3d p = q.leftCols(2) * q.leftCols(2).transpose() / 2;
    for (int r = 0; r < 9; ++r) EXPECT_NEAR(e.jacobian[r], p(r / 3, r % 3), 4e-6);
    // A gap is one if single precision can resolve it.
    const Evaluated apart = evaluate_single(entries(with_eigenvalues({1, 1.01, 3}, q)), smallest);
    const Vector3d v = q.col(0);
    for (int r = 0; r < 9; ++r) EXPECT_NEAR(apart.jacobian[r], v[r / 3] * v[r % 3], 2e-4);
  }
}

TEST(SmallestEigenvalue, OfEntriesThatAreNotFiniteIsNaN) {
  for (const double bad : {NAN, INFINITY, -INFINITY})
    for (std::size_t k = 0; k < 9; ++k) {
      Numbers a = {1, 0.5, 0, 0.5, 2, 0.25, 0, 0.25, 3};
      a[k] = bad;
      EXPECT_TRUE(std::isnan(evaluate(a, smallest).rows[0])) << bad << " at " << k;
    }
}

}  // namespace
}  // namespace topograd::test
