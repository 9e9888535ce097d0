// Matrices and rotations against Eigen and against differences in long double.
#include "../../frontend/mat.hpp"
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "evaluated.hpp"

namespace topograd::test {
namespace {

const Numbers kNumbers = {2,    -1,  0.5, 0.25, 3,  -2,  1,   0.75, 4,
                          -0.5, 1.5, 2,   1,    -3, 0.5, 2.5, 1,    -1};

template <int N>
using Dense = Eigen::Matrix<double, N, N, Eigen::RowMajor>;
template <int N>
using Column = Eigen::Matrix<double, N, 1>;

template <int N>
Mat<N> mat(const Parameters& x, std::size_t first) {
  Mat<N> m;
  for (std::size_t k = 0; k < N * N; ++k) m.entries[k] = x[first + k];
  return m;
}
template <int N>
VecN<N> column_of(const Parameters& x, std::size_t first) {
  return detail::generate<N>([&](int k) { return x[first + static_cast<std::size_t>(k)]; });
}
template <int N>
std::vector<Value> rows_of(const Mat<N>& m) {
  return {m.entries.begin(), m.entries.end()};
}
std::vector<Value> rows_of(const Vec2& v) { return {v.x, v.y}; }
std::vector<Value> rows_of(const Vec3& v) { return list(v); }
std::vector<Value> rows_of(const Value& v) { return {v}; }

template <class Derived>
Numbers numbers(const Eigen::MatrixBase<Derived>& m) {
  Numbers result;
  for (int i = 0; i < m.rows(); ++i)
    for (int j = 0; j < m.cols(); ++j) result.push_back(m(i, j));
  return result;
}

/// Expects `ours` of two matrices and a vector to be `expected`, with correct derivatives.
template <int N, class F>
void expect_same(const char* name, F ours, const Numbers& expected) {
  SCOPED_TRACE(name);
  const Expression f = [&](const Parameters& x) {
    return rows_of(ours(mat<N>(x, 0), mat<N>(x, N * N), column_of<N>(x, 1)));
  };
  const Evaluated e = evaluate(kNumbers, f);
  ASSERT_EQ(e.rows.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(e.rows[k], expected[k], 1e-14 * (1 + std::abs(expected[k]))) << k;
  EXPECT_LT(difference_error(kNumbers, f), 1e-9);
}

template <int N>
void compare_operations() {
  const Dense<N> a = Eigen::Map<const Dense<N>>(kNumbers.data());
  const Dense<N> b = Eigen::Map<const Dense<N>>(kNumbers.data() + N * N);
  const Column<N> v = Eigen::Map<const Column<N>>(kNumbers.data() + 1);
  const auto one = [](double x) { return Numbers{x}; };
  using M = const Mat<N>&;
  using V = const VecN<N>&;
  expect_same<N>(
      "a + b", [](M p, M q, V) { return p + q; }, numbers(a + b));
  expect_same<N>(
      "a - b", [](M p, M q, V) { return p - q; }, numbers(a - b));
  expect_same<N>(
      "-a", [](M p, M, V) { return -p; }, numbers(-a));
  expect_same<N>(
      "a * v0", [](M p, M, V w) { return p * w.x; }, numbers(a * v[0]));
  expect_same<N>(
      "2 * a", [](M p, M, V) { return 2.0 * p; }, numbers(2 * a));
  expect_same<N>(
      "a / v0", [](M p, M, V w) { return p / w.x; }, numbers(a / v[0]));
  expect_same<N>(
      "a v", [](M p, M, V w) { return p * w; }, numbers(a * v));
  expect_same<N>(
      "a b", [](M p, M q, V) { return p * q; }, numbers(a * b));
  expect_same<N>(
      "transpose", [](M p, M, V) { return transpose(p); }, numbers(a.transpose()));
  expect_same<N>(
      "trace", [](M p, M, V) { return trace(p); }, one(a.trace()));
  expect_same<N>(
      "determinant", [](M p, M, V) { return determinant(p); }, one(a.determinant()));
  expect_same<N>(
      "inverse", [](M p, M, V) { return inverse(p); }, numbers(a.inverse()));
  expect_same<N>(
      "norm", [](M p, M, V) { return norm(p); }, one(a.norm()));
  expect_same<N>(
      "dot", [](M p, M q, V) { return dot(p, q); }, one(a.cwiseProduct(b).sum()));
  expect_same<N>(
      "outer", [](M p, M, V w) { return outer(row(p, 0), w); },
      numbers(a.row(0).transpose() * v.transpose()));
  expect_same<N>(
      "diagonal", [](M, M, V w) { return diagonal(w); }, numbers(Dense<N>(v.asDiagonal())));
  expect_same<N>(
      "identity", [](M p, M, V) { return p + Mat<N>::identity(); },
      numbers(a + Dense<N>::Identity()));
  expect_same<N>(
      "assigned",
      [](M p, M q, V w) {
        Mat<N> m = p;
        m += q;
        m *= w.x;
        m -= p;
        m /= literal(4.0);
        return m;
      },
      numbers(((a + b) * v[0] - a) / 4));
  expect_same<N>(
      "lines",
      [](M p, M, V) {
        if constexpr (N == 2)
          return from_rows(column(p, 1), row(p, 0)) - from_columns(row(p, 1), row(p, 0));
        if constexpr (N == 3)
          return from_rows(column(p, 1), row(p, 0), row(p, 2)) -
                 from_columns(row(p, 1), row(p, 0), column(p, 2));
      },
      [&] {
        Dense<N> r = a, c = a;
        r.row(0) = a.col(1).transpose();
        r.row(1) = a.row(0);
        c.col(0) = a.row(1).transpose();
        c.col(1) = a.row(0).transpose();
        return numbers(r - c);
      }());
}

TEST(Mat2, OperationsAreThoseOfEigen) { compare_operations<2>(); }
TEST(Mat3, OperationsAreThoseOfEigen) { compare_operations<3>(); }

TEST(Mat3, NormOfZeroHasDerivativeZero) {
  const Evaluated e =
      evaluate(Numbers(9, 0.0), [](const Parameters& x) { return rows_of(norm(mat<3>(x, 0))); });
  EXPECT_EQ(e.rows, Numbers{0.0});
  EXPECT_EQ(e.jacobian, Numbers(9, 0.0));
}

Quat quaternion(const Parameters& x) { return from_xyzw({x[0], x[1], x[2], x[3]}); }

TEST(Rotation, OfAQuaternionIsThatOfEigen) {
  const Numbers rows[] = {{0, 0, 0, 1}, {0.5, -0.5, 0.5, 0.5}, {1, 2, -3, 0.5}, {0, 0, 2, 0}};
  for (const Numbers& q : rows) {
    const Expression matrix = [](const Parameters& x) {
      return rows_of(rotation_matrix(quaternion(x)));
    };
    const Expression turned = [](const Parameters& x) {
      const Vec3 v{literal(0.3), literal(-1.2), literal(0.8)};
      const Vec3 r = rotate(quaternion(x), v);
      return std::vector{r.x, r.y, r.z};
    };
    const Eigen::Matrix3d expected =
        Eigen::Quaterniond(q[3], q[0], q[1], q[2]).normalized().toRotationMatrix();
    const Numbers m = evaluate(q, matrix).rows, v = evaluate(q, turned).rows;
    const Eigen::Vector3d rv = expected * Eigen::Vector3d(0.3, -1.2, 0.8);
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(m[k], expected(k / 3, k % 3), 4e-16);
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(v[k], rv[k], 1e-15);
    EXPECT_LT(difference_error(q, matrix), 1e-10);
    EXPECT_LT(difference_error(q, turned), 1e-10);
  }
}

TEST(Rotation, OfAZeroQuaternionIsTheIdentityWithoutDerivative) {
  const Evaluated e = evaluate(
      Numbers(4, 0.0), [](const Parameters& x) { return rows_of(rotation_matrix(quaternion(x))); });
  EXPECT_EQ(e.rows, (Numbers{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(e.jacobian, Numbers(36, 0.0));
}

TEST(Rotation, MatrixOfAnAxisAngleIsThatOfEigen) {
  const Expression f = [](const Parameters& x) { return rows_of(rotation_matrix(vec(x, 0))); };
  for (const double angle : {0.0, 1e-8, 0.0156, 0.0157, 1.0, 3.1415, 6.0}) {
    const Eigen::Vector3d axis(0.6, -0.48, 0.64);
    const Eigen::Matrix3d expected = Eigen::AngleAxisd(angle, axis).toRotationMatrix();
    const Numbers a = {angle * axis[0], angle * axis[1], angle * axis[2]};
    const Numbers m = evaluate(a, f).rows;
    for (int k = 0; k < 9; ++k) EXPECT_NEAR(m[k], expected(k / 3, k % 3), 2e-15) << angle;
    EXPECT_LT(difference_error(a, f), 1e-10) << angle;
  }
}

// Below |θ|² = 2⁻¹² both series have errors of less than a rounding, and a rotation about the third
// axis, or one across it, has an entry that only one of them decides.
TEST(Rotation, TheSeriesOfSmallAnglesHaveNoErrorOfTheirOwn) {
  const Expression f = [](const Parameters& x) {
    const Value zero = literal(0.0);
    return std::vector{rotation_matrix(Vec3{zero, zero, x[0]})(1, 0),
                       rotation_matrix(Vec3{x[0], x[0], zero})(1, 0)};
  };
  double sine = 0, cosine = 0;
  constexpr int kAngles = 400;
  for (int k = 1; k <= kAngles; ++k) {
    const double x = 0x1p-6 * std::sqrt(0.5) * (0.9 + 0.1 * k / (kAngles + 1));
    const Numbers rows = evaluate({x}, f).rows;
    const long double wide = x, half = wide * std::sqrt(0.5L), turned = std::sin(half);
    sine += static_cast<double>(rows[0] / std::sin(wide) - 1);
    cosine += static_cast<double>(rows[1] / (turned * turned) - 1);
  }
  EXPECT_LT(std::abs(sine / kAngles), 5e-17);
  EXPECT_LT(std::abs(cosine / kAngles), 1e-16);
}

// Entries that are sin θ alone, and their derivative cos θ, on both sides of the end of the series.
TEST(Rotation, SinesOfSmallAnglesHaveAllDigits) {
  const Expression f = [](const Parameters& x) {
    return std::vector{rotation_matrix(Vec3{literal(0.0), literal(0.0), x[0]})(1, 0)};
  };
  for (const double angle : {1e-12, 1e-3, 0.01, 0.0156, 0.015624, 0.015626, 0.1}) {
    const Evaluated e = evaluate({angle}, f);
    EXPECT_NEAR(e.rows[0] / std::sin(angle), 1, 6e-16) << angle;
    EXPECT_NEAR(e.jacobian[0], std::cos(angle), 2e-15) << angle;
  }
}

}  // namespace
}  // namespace topograd::test
