// Eigen's algebra on Values against the same algebra on doubles, with derivatives by differences.
#include "../../frontend/eigen.hpp"
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "evaluated.hpp"

namespace topograd::test {
namespace {

/// The same code for doubles and for Values: 24 numbers in, a list out.
template <class T>
struct Algebra {
  using V3 = Eigen::Matrix<T, 3, 1>;
  using M3 = Eigen::Matrix<T, 3, 3>;
  using M23 = Eigen::Matrix<T, 2, 3>;
  V3 u, v;
  M3 a, b;

  template <class X>
  explicit Algebra(const X& x) {
    for (int k = 0; k < 3; ++k) {
      u[k] = x[static_cast<std::size_t>(k)];
      v[k] = x[static_cast<std::size_t>(3 + k)];
    }
    for (int k = 0; k < 9; ++k) {
      a(k / 3, k % 3) = x[static_cast<std::size_t>(6 + k)];
      b(k / 3, k % 3) = x[static_cast<std::size_t>(15 + k)];
    }
  }

  template <class Derived>
  static std::vector<T> list(const Eigen::MatrixBase<Derived>& m) {
    std::vector<T> result;
    for (int i = 0; i < m.rows(); ++i)
      for (int j = 0; j < m.cols(); ++j) result.push_back(m(i, j));
    return result;
  }

  std::vector<T> run(int operation) const {
    const M23 rectangular = a.template topRows<2>();
    switch (operation) {
      case 0: return list(u + v * 2.0 - 0.5 * u / 4.0);
      case 1: return {u.dot(v), u.norm(), u.squaredNorm(), (u - v).norm()};
      case 2: return list(u.cross(v));
      case 3: return list(a * b);
      case 4: return list(a * u);
      case 5: return list(rectangular * b * v);
      case 6: return list(a.transpose() * b - a * 3.0);
      case 7: return {a.determinant(), a.trace(), (a * b).sum()};
      case 8: return list(M3(a.inverse()));
      case 9: return list(Eigen::AngleAxis<T>(u[0], V3(T(0), T(0.6), T(0.8))) * v);
      case 10: return list(Eigen::AngleAxis<T>(u[1], V3::UnitX()).toRotationMatrix());
      case 11: return list(Eigen::Quaternion<T>(u[0], v[0], v[1], v[2]) * u);
      case 12: return list(u.cwiseProduct(v).cwiseAbs());
      case 13: return list(u * v.transpose());
      case 14: return list(Eigen::Vector3d(1, -2, 0.5).cast<T>() - v);
      default: return {};
    }
  }
};

TEST(Eigen, AlgebraOnValuesIsThatOnDoubles) {
  Numbers x;
  for (int k = 0; k < 24; ++k) x.push_back(1.5 * std::sin(1 + 5.0 * k + k * k));
  for (int operation = 0; operation <= 14; ++operation) {
    SCOPED_TRACE(operation);
    const Numbers expected = Algebra<double>(x).run(operation);
    const Expression f = [&](const Parameters& p) { return Algebra<Value>(p).run(operation); };
    const Numbers rows = evaluate(x, f).rows;
    ASSERT_EQ(rows.size(), expected.size());
    ASSERT_FALSE(rows.empty());
    for (std::size_t k = 0; k < rows.size(); ++k)
      EXPECT_NEAR(rows[k], expected[k], 1e-14 * (1 + std::abs(expected[k])));
    EXPECT_LT(difference_error(x, f), 1e-9);
  }
}

TEST(Eigen, ConversionsKeepComponents) {
  Numbers x;
  for (int k = 0; k < 9; ++k) x.push_back(k + 1);
  const Evaluated e = evaluate(x, [](const Parameters& p) {
    const Vec3 v = from_eigen(to_eigen(Vec3{p[0], p[1], p[2]}));
    const Vec2 w = from_eigen(to_eigen(Vec2{p[3], p[4]}));
    const Vec4 q = from_eigen(to_eigen(Vec4{p[5], p[6], p[7], p[8]}));
    return std::vector{v.x, v.y, v.z, w.x, w.y, q.x, q.y, q.z, q.w};
  });
  EXPECT_EQ(e.rows, x);
  const Evaluated m = evaluate(x, [](const Parameters& p) {
    Mat3 a;
    for (std::size_t k = 0; k < 9; ++k) a.entries[k] = p[k];
    const Mat3 r = from_eigen(to_eigen(a));
    return std::vector<Value>(r.entries.begin(), r.entries.end());
  });
  EXPECT_EQ(m.rows, x);
}

/// Vecs take numbers of Eigen's as the other operand: vectors, maps and expressions.
TEST(Eigen, NumbersAreOperandsOfVecs) {
  const Numbers x = {1, 2, 3};
  const Eigen::Vector3d a(5, 7, 11), b(0.5, 0.25, 0.125);
  const Eigen::Vector2d c(3, 4);
  const Numbers four = {2, 4, 6, 8};
  const Evaluated e = evaluate(x, [&](const Parameters& p) {
    const Vec3 v = {p[0], p[1], p[2]};
    const Vec2 w = {p[0], p[1]};
    const Vec3 difference = v - a, sum = (a + 2.0 * b) + v;
    Vec3 moved = v;
    moved += a;
    moved -= Eigen::Matrix3d::Identity() * b;
    const Vec3 product = cross(a, v);
    const Vec4 q = Vec4{p[0], p[1], p[2], p[0]} - Eigen::Map<const Eigen::Vector4d>(four.data());
    return std::vector{difference.x,
                       difference.z,
                       sum.y,
                       moved.x,
                       moved.z,
                       product.x,
                       product.y,
                       product.z,
                       dot(v, a),
                       distance(a, v),
                       q.w,
                       cross(w, c),
                       distance(w, c),
                       squared_distance(c, w)};
  });
  const Eigen::Vector3d v(1, 2, 3);
  const Eigen::Vector3d product = a.cross(v);
  const Numbers want = {-4,
                        -8,
                        9.5,
                        5.5,
                        13.875,
                        product.x(),
                        product.y(),
                        product.z(),
                        a.dot(v),
                        (a - v).norm(),
                        -7,
                        1 * 4 - 2 * 3,
                        std::sqrt(8.0),
                        8};
  ASSERT_EQ(e.rows.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) EXPECT_DOUBLE_EQ(e.rows[k], want[k]) << k;
}

/// Overwrites the stack of the temporaries.
[[gnu::noinline]] Value others(const Parameters& p) {
  const auto u = to_eigen(Vec3{p[3], p[4], p[5]}), v = to_eigen(Vec3{p[6], p[7], p[8]});
  return (u.cross(v) + u).sum();
}

TEST(Eigen, ExpressionsOfTemporariesThatAutoKeepsAreWhole) {
  const Numbers x = {1, 2, 3, 5, 8, 13, 21, 34, 55};
  const auto vector = [](const Parameters& p, std::size_t first) -> decltype(auto) {
    return to_eigen(vec(p, first));  // const: its transpose is a copy, too
  };
  const Expression kept = [&](const Parameters& p) {
    auto difference = vector(p, 0) - vector(p, 3);
    auto combined = 2.0 * vector(p, 0) + vector(p, 6).cwiseProduct(vector(p, 3));
    auto row = vector(p, 6).transpose();
    auto outer = vector(p, 0) * vector(p, 3).transpose();
    const Value other = others(p);
    return std::vector<Value>{difference.squaredNorm(), combined.sum(), row.sum(),
                              outer(0, 1) + outer(2, 0), other};
  };
  const Numbers rows = evaluate(x, kept).rows;
  EXPECT_EQ(rows[0], 16.0 + 36 + 100);
  EXPECT_EQ(rows[1], 12.0 + 21 * 5 + 34 * 8 + 55 * 13);
  EXPECT_EQ(rows[2], 110.0);
  EXPECT_EQ(rows[3], 1.0 * 8 + 3 * 5);
}

TEST(Eigen, PartsOfANamedMatrixCanBeWritten) {
  const Evaluated e = evaluate({1, 2, 3, 4}, [](const Parameters& p) {
    Eigen::Matrix<Value, 2, 2> m;
    m.row(0) << p[0], p[1];
    m.transpose().col(1) << p[2], p[3];
    m.block<1, 2>(1, 0) *= 2.0;
    m.array() += 1.0;
    return std::vector<Value>{m(0, 0), m(0, 1), m(1, 0), m(1, 1)};
  });
  EXPECT_EQ(e.rows, (Numbers{2, 3, 7, 9}));
}

}  // namespace
}  // namespace topograd::test
