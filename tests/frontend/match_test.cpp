// Which residuals share a topology, and that every instance keeps its own indices and numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "reference.hpp"

namespace topograd::test {
namespace {

struct Named {
  const char* name;
  std::function<Value(const Parameters& x, std::uint32_t a, std::uint32_t b, double rest)> call;
};

/// The same residual, |x_a - x_b| - L, in common spellings.
std::vector<Named> spring_forms() {
  const auto sum = [](const Value& a, const Value& b, const Value& c) { return sqrt(a + b + c); };
  using P = const Parameters&;
  using I = std::uint32_t;
  return {
      {"plain",
       [=](P x, I a, I b, double rest) {
         const Vec3 d = x.vec3(a) - x.vec3(b);
         return sum(d.x * d.x, d.y * d.y, d.z * d.z) - rest;
       }},
      {"other names, other order of building",
       [=](P x, I a, I b, double rest) {
         const Value length = rest;
         const Vec3 q = x.vec3(b);
         const Vec3 p = x.vec3(a);
         const Value dz = p.z - q.z, dy = p.y - q.y, dx = p.x - q.x;
         const Value yy = dy * dy, xx = dx * dx, zz = dz * dz;
         return sum(xx, yy, zz) - length;
       }},
      {"commuted sums",
       [=](P x, I a, I b, double rest) {
         const Vec3 d = x.vec3(a) - x.vec3(b);
         return sqrt(d.z * d.z + (d.y * d.y + d.x * d.x)) - rest;
       }},
      {"coordinates in another order",
       [=](P x, I a, I b, double rest) {
         const Vec3 d = x.vec3(a) - x.vec3(b);
         return sum(d.y * d.y, d.z * d.z, d.x * d.x) - rest;
       }},
      {"leaves read again",
       [=](P x, I a, I b, double rest) {
         const auto d = [&](int k) { return x(a, k) - x(b, k); };
         return sum(d(0) * d(0), d(1) * d(1), d(2) * d(2)) - rest;
       }},
      {"with nodes that nothing needs",
       [=](P x, I a, I b, double rest) {
         const Vec3 d = x.vec3(a) - x.vec3(b);
         (void)(sin(d.x) * x(a, 1));
         return sum(d.x * d.x, d.y * d.y, d.z * d.z) - rest;
       }},
      {"dot",
       [=](P x, I a, I b, double rest) {
         const Vec3 d = x.vec3(a) - x.vec3(b);
         return sqrt(dot(d, d)) - rest;
       }},
  };
}

double direct(const Springs& s, const Springs::Edge& e) {
  double sum = 0;
  for (int k = 0; k < 3; ++k) {
    const double d = s.positions[3 * e.a + k] - s.positions[3 * e.b + k];
    sum += d * d;
  }
  return std::sqrt(sum) - e.rest;
}

TEST(Match, TheSameResidualInManyFormsIsOneTopology) {
  Springs s(6);
  Problem problem;
  const Parameters x = problem.add_parameters(s.positions, 3);
  const std::vector<Named> forms = spring_forms();
  std::vector<double> expected;
  // Cyclically, so that every form is new once and known later.
  for (std::size_t k = 0; k < s.edges.size(); ++k) {
    const Named& form = forms[k % forms.size()];
    const Springs::Edge& e = s.edges[k];
    problem.add_residual(form.call(x, e.a, e.b, e.rest));
    EXPECT_EQ(problem.topology_count(), 1u) << form.name;
    expected.push_back(direct(s, e));
  }
  const std::vector<double> rows = residuals(problem);
  for (std::size_t k = 0; k < rows.size(); ++k)
    EXPECT_NEAR(rows[k], expected[k], 1e-14) << forms[k % forms.size()].name;
  EXPECT_EQ(problem.statistics().canonical_misses, 0u);
  EXPECT_LE(problem.statistics().canonical_forms, forms.size());
  EXPECT_GE(problem.statistics().fast_matches, s.edges.size() - 2 * forms.size());
}

TEST(Match, NumbersAreNeverStructure) {
  std::vector<double> values = {0.5, 0.25};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const double inf = std::numeric_limits<double>::infinity();
  const double numbers[] = {0.3, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, std::nan(""), inf, -inf, 1e-320};
  std::vector<double> expected;
  for (const double a : numbers)
    for (const double b : numbers) {
      problem.add_residual((x[0] * a + b) * x[1]);
      expected.push_back((0.5 * a + b) * 0.25);
    }
  EXPECT_EQ(problem.topology_count(), 1u);
  const std::vector<double> rows = residuals(problem);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    EXPECT_EQ(std::isnan(rows[k]), std::isnan(expected[k]));
    if (!std::isnan(expected[k])) {
      EXPECT_EQ(rows[k], expected[k]);
      EXPECT_EQ(std::signbit(rows[k]), std::signbit(expected[k]));
    }
  }
}

TEST(Match, StructureIsToldApart) {
  std::vector<double> values = {1.0, 2.0, 3.0, 4.0};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Uniform u = problem.add_uniform(5.0);
  std::size_t topologies = 0;
  const auto expect_new = [&](const char* name, const Value& row) {
    problem.add_residual(row);
    EXPECT_EQ(problem.topology_count(), ++topologies) << name;
  };
  const auto expect_known = [&](const char* name, const Value& row) {
    problem.add_residual(row);
    EXPECT_EQ(problem.topology_count(), topologies) << name;
  };
  expect_new("a + b", x[0] + x[1]);
  expect_known("c + d", x[2] + x[3]);
  expect_known("b + a", x[1] + x[0]);
  expect_new("a + a", x[0] + x[0]);
  expect_known("b + b", x[1] + x[1]);
  expect_new("a - b", x[0] - x[1]);
  expect_new("a + number", x[0] + 2.0);
  expect_new("a + uniform", x[0] + u);
  expect_new("a + literal", x[0] + literal(2.0));
  expect_new("a + other literal", x[0] + literal(3.0));
  expect_new("a + b + c", x[0] + x[1] + x[2]);
  expect_new("a + a + b", x[0] + x[0] + x[1]);
  expect_new("a + b + b, in this order", x[0] + x[1] + x[1]);
  expect_known("b + a + b", x[1] + x[0] + x[1]);
  expect_new("a * b + c * d", x[0] * x[1] + x[2] * x[3]);
  expect_known("d * b + a * c", x[3] * x[1] + x[0] * x[2]);
  expect_new("a * b + a * c", x[0] * x[1] + x[0] * x[2]);
  expect_new("a * b + a * b", x[0] * x[1] + x[0] * x[1]);
}

TEST(Match, UniformsThatCoincideAreToldApart) {
  std::vector<double> values = {1.0, 2.0};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Uniform u = problem.add_uniform(3.0), v = problem.add_uniform(3.0);
  problem.add_residual(x[0] * u + v);
  problem.add_residual(x[1] * v + u);
  EXPECT_EQ(problem.topology_count(), 1u);
  problem.add_residual(x[1] * v + v);
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{6.0, 9.0, 9.0}));
}

TEST(Match, AHundredThousandSpringsInAnyOrderAreOneTopology) {
  Springs s(184);
  std::mt19937 random(1);
  std::shuffle(s.edges.begin(), s.edges.end(), random);
  ASSERT_GT(s.edges.size(), 100'000u);
  Problem problem;
  const Parameters x = problem.add_parameters(s.positions, 3);
  for (const Springs::Edge& e : s.edges)
    problem.add_residual(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest);
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(problem.statistics().fast_matches, s.edges.size() - 1);
  const std::vector<double> rows = residuals(problem);
  for (std::size_t k = 0; k < rows.size(); ++k)
    ASSERT_NEAR(rows[k], direct(s, s.edges[k]), 1e-14) << k;
  // 6 indices, 1 number, and at most 16 bytes per residual beyond these.
  const double bytes = static_cast<double>(problem.bytes()) / static_cast<double>(rows.size());
  EXPECT_LE(bytes, 6 * 4 + 8 + 16) << bytes;
}

TEST(Match, InterleavedShapesAreFoundWithoutComputingForms) {
  Springs s(40);
  Problem problem;
  const Parameters x = problem.add_parameters(s.positions, 3);
  std::size_t anchors = 0;
  for (std::size_t k = 0; k < s.edges.size(); ++k) {
    const Springs::Edge& e = s.edges[k];
    problem.add_residual(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest);
    if (k % 3 == 0 || k % 7 == 0) continue;
    problem.add_residual((x.vec3(e.a) - std::array<double, 3>{0, 1, 2}) * 2.0);
    ++anchors;
  }
  EXPECT_EQ(problem.topology_count(), 2u);
  EXPECT_EQ(problem.residual_count(), s.edges.size() + 3 * anchors);
  EXPECT_LE(problem.statistics().slow_matches, 2u);
}

TEST(Match, ResidualsMayShareASubExpression) {
  Springs s(12);
  Problem shared, apart;
  std::vector<double> copy = s.positions;
  const Parameters x = shared.add_parameters(s.positions, 3);
  const Parameters y = apart.add_parameters(copy, 3);
  const auto normal = [](const Parameters& p, const Springs::Edge& e) {
    return normalize(cross(p.vec3(e.a) - p.vec3(0), p.vec3(e.b) - p.vec3(0)));
  };
  std::size_t triples = 0;
  for (const Springs::Edge& e : s.edges) {
    if (e.a == 0) continue;
    ++triples;
    const Vec3 n = normal(x, e);
    shared.add_residual(n.x - 1.0);
    shared.add_residual(dot(n, x.vec3(e.b)) * 2.0);
    shared.add_residual(n);
    apart.add_residual(normal(y, e).x - 1.0);
    apart.add_residual(dot(normal(y, e), y.vec3(e.b)) * 2.0);
    apart.add_residual(normal(y, e));
  }
  EXPECT_EQ(shared.topology_count(), 3u);
  EXPECT_EQ(apart.topology_count(), 3u);
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_TRUE(shared.topology(t).program == apart.topology(t).program) << t;
    EXPECT_EQ(shared.batch(t).size(), triples);
  }
  EXPECT_EQ(residuals(shared), residuals(apart));
  // Sharing costs the collection of nodes, not a canonical form each time.
  EXPECT_LE(shared.statistics().canonical_forms, 3u);
  EXPECT_LT(detail::tape.size, 500u);
}

TEST(Match, ExpressionsMayBeBuiltBeforeAnyIsAdded) {
  Springs s(20);
  Problem problem;
  const Parameters x = problem.add_parameters(s.positions, 3);
  std::vector<Value> rows;
  for (const Springs::Edge& e : s.edges) rows.push_back(norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest);
  for (const Value& row : rows) problem.add_residual(row);
  for (const Value& row : rows) problem.add_residual(row);
  EXPECT_EQ(problem.topology_count(), 1u);
  const std::vector<double> got = residuals(problem);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    EXPECT_NEAR(got[k], direct(s, s.edges[k]), 1e-14);
    EXPECT_EQ(got[rows.size() + k], got[k]);
  }
}

TEST(Match, BlocksOfSeveralRowsKeepTheirOrder) {
  std::vector<double> values = {1.0, 2.0};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  problem.add_residual({x[0] + 10, x[0] * x[1]});
  problem.add_residual({x[1] * x[0], x[0] + 10});
  const std::vector<Value> three = {x[0], x[1], x[0]};
  problem.add_residual(std::span<const Value>(three));
  EXPECT_EQ(problem.topology_count(), 3u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{11, 2, 2, 11, 1, 2, 1}));
}

TEST(Match, SymmetricGraphsAreNeverMatchedWrongly) {
  // Sum of x_i x_j over the edges of two graphs with 6 vertices of degree 3 each.
  const std::vector<std::array<int, 2>> bipartite = {{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4},
                                                     {1, 5}, {2, 3}, {2, 4}, {2, 5}};
  const std::vector<std::array<int, 2>> prism = {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5},
                                                 {5, 3}, {0, 3}, {1, 4}, {2, 5}};
  std::vector<double> values = {2, 3, 5, 7, 11, 13};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  std::mt19937 random(7);
  std::vector<double> expected;
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<int> name(6);
    std::iota(name.begin(), name.end(), 0);
    std::shuffle(name.begin(), name.end(), random);
    const auto& edges = trial % 2 == 0 ? bipartite : prism;
    Value sum = literal(0.0);
    double number = 0;
    for (const auto& [i, j] : edges) {
      sum += x[name[i]] * x[name[j]];
      number += values[name[i]] * values[name[j]];
    }
    problem.add_residual(sum);
    expected.push_back(number);
  }
  EXPECT_EQ(residuals(problem), expected);
  for (std::size_t t = 0; t < problem.topology_count(); ++t)
    for (std::size_t k = 1; k < problem.batch(t).size(); ++k)
      EXPECT_EQ(problem.batch(t).residual_row(k) % 2, problem.batch(t).residual_row(0) % 2);
}

}  // namespace
}  // namespace topograd::test
