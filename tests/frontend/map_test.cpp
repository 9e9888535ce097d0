// The map interface: the same topologies and rows as plain values, valence groups, equal indices.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "reference.hpp"

namespace topograd::test {
namespace {

/// Both problems have the same topologies and the same instances, row by row.
void expect_same(const Problem& a, const Problem& b) {
  ASSERT_EQ(a.topology_count(), b.topology_count());
  ASSERT_EQ(a.residual_count(), b.residual_count());
  for (std::size_t t = 0; t < a.topology_count(); ++t) {
    EXPECT_TRUE(a.topology(t).program == b.topology(t).program) << t;
    const ir::Batch &p = a.batch(t), &q = b.batch(t);
    ASSERT_EQ(p.size(), q.size());
    for (std::size_t k = 0; k < p.size(); ++k) {
      ASSERT_EQ(p.residual_row(k), q.residual_row(k));
      for (std::uint32_t c = 0; c < p.index_columns(); ++c)
        ASSERT_EQ(p.index(k, c), q.index(k, c)) << "instance " << k << ", column " << c;
      for (std::uint32_t c = 0; c < p.data_columns(); ++c) ASSERT_EQ(p.data(k, c), q.data(k, c));
    }
  }
}

struct EdgeColumns {
  std::vector<std::uint32_t> indices;
  std::vector<double> rest;
  explicit EdgeColumns(const Springs& s) {
    for (const Springs::Edge& e : s.edges) {
      indices.insert(indices.end(), {e.a, e.b});
      rest.push_back(e.rest);
    }
  }
};

TEST(Map, GivesTheSameBatchesAsPlainValues) {
  Springs s(10);
  Problem plain, map;
  std::vector<double> copy = s.positions;
  const Parameters x = plain.add_parameters(s.positions, 3);
  const Parameters y = map.add_parameters(copy, 3);
  const Uniform wx = plain.add_uniform(3.0), wy = map.add_uniform(3.0);
  for (const Springs::Edge& e : s.edges)
    plain.add_residual((norm(x.vec3(e.a) - x.vec3(e.b)) - e.rest) * wx);
  const EdgeColumns columns(s);
  int calls = 0;
  const Residuals added =
      map.add_residuals(s.edges.size(),
                        [&](Element e) {
                          ++calls;
                          return (norm(e.vec3(y, 0) - y.vec3(e.index(1))) - e.data(0)) * wy;
                        },
                        {.indices = columns.indices, .data = columns.rest, .label = "edge"});
  EXPECT_EQ(calls, 2);  // the second call checks that it gives the same
  EXPECT_EQ(added.count, s.edges.size());
  EXPECT_EQ(map.label(0), "edge");
  expect_same(plain, map);
}

TEST(Map, ManyElementsInSeveralCallsBetweenOtherResiduals) {
  Springs s(60);  // 10,000 edges: the rows of three blocks of a batch
  Problem plain, map;
  std::vector<double> copy = s.positions;
  const Parameters x = plain.add_parameters(s.positions, 3);
  const Parameters y = map.add_parameters(copy, 3);
  const EdgeColumns columns(s);
  const auto edge = [](const Vec3& a, const Vec3& b, const Value& rest) {
    return Vec2{norm(a - b) - rest, (a.x - b.y) * 0.25};
  };
  std::size_t first = 0;
  for (const std::size_t end :
       {std::size_t{3}, std::size_t{9}, std::size_t{5000}, s.edges.size()}) {
    for (std::size_t k = first; k < end; ++k) {
      const Springs::Edge& e = s.edges[k];
      plain.add_residual(edge(x.vec3(e.a), x.vec3(e.b), e.rest), {.label = "edge"});
    }
    const Residuals added = map.add_residuals(
        end - first, [&](Element e) { return edge(e.vec3(y, 0), e.vec3(y, 1), e.data(0)); },
        {.indices = std::span(columns.indices).subspan(2 * first, 2 * (end - first)),
         .data = std::span(columns.rest).subspan(first, end - first),
         .label = "edge"});
    EXPECT_EQ(added.count, end - first);
    // Residuals of the same and of another topology between the calls.
    for (const auto& [problem, p] : {std::pair(&plain, &x), std::pair(&map, &y)}) {
      problem->add_residual(p->vec3(0) - p->vec3(1));
      problem->add_residual(edge(p->vec3(0), p->vec3(1), 1.0), {.label = "edge"});
    }
    first = end;
  }
  expect_same(plain, map);
  // Residuals added together can be removed and found like others.
  EXPECT_EQ(map.locate(4).label, "edge");
  const std::size_t count = map.residual_count();
  for (Problem* problem : {&plain, &map}) {
    const Parameters& p = problem == &plain ? x : y;
    const Residual last = problem->add_residual(edge(p.vec3(4), p.vec3(2), 3.0));
    problem->remove(last);
  }
  EXPECT_EQ(map.residual_count(), count);
  EXPECT_EQ(map.locate(count - 1).label, "edge");
  map.add_residuals(2, [&](Element e) { return e.vec3(y, 0) - e.vec3(y, 1); },
                    {.indices = std::span(columns.indices).first(4)});
  for (std::size_t k = 0; k < 2; ++k)
    plain.add_residual(x.vec3(columns.indices[2 * k]) - x.vec3(columns.indices[2 * k + 1]));
  expect_same(plain, map);
}

TEST(Map, CapturedNumbersValuesAndBlocksAreTheSameInAllElements) {
  std::vector<double> values = {1, 2, 3, 4, 5};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Value shared = x[4] * 2.0;
  const std::vector<std::uint32_t> indices = {0, 1, 2, 3};
  problem.add_residuals(4, [&](Element e) { return e.scalar(x, 0) * 10.0 + shared; },
                        {.indices = indices});
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{20, 30, 40, 50}));
}

TEST(Map, IndicesMayBeShifted) {
  std::vector<double> values = {1, 2, 4, 8, 16};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::vector<std::uint32_t> indices = {1, 2, 3};
  problem.add_residuals(
      3, [&](Element e) { return x[e.index(0) + 1] - 2 * x[e.index(0)] + 3 * x[e.index(0) - 1]; },
      {.indices = indices});
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{3, 6, 12}));
}

TEST(Map, VertexStarsGetOneTopologyForEachValence) {
  Springs s(9);
  std::vector<std::vector<std::uint32_t>> stars(81);
  for (const Springs::Edge& e : s.edges) {
    stars[e.a].push_back(e.b);
    stars[e.b].push_back(e.a);
  }
  std::vector<std::uint32_t> offsets = {0}, indices;
  for (std::uint32_t v = 0; v < stars.size(); ++v) {
    indices.push_back(v);
    indices.insert(indices.end(), stars[v].begin(), stars[v].end());
    offsets.push_back(static_cast<std::uint32_t>(indices.size()));
  }
  Problem map, plain;
  std::vector<double> copy = s.positions;
  const Parameters x = map.add_parameters(s.positions, 3);
  const Parameters y = plain.add_parameters(copy, 3);
  std::vector<int> valences;
  map.add_residuals(stars.size(),
                    [&](Element e) {
                      valences.push_back(e.valence());
                      Vec3 sum = e.vec3(x, 1);
                      for (int k = 2; k < e.valence(); ++k) sum += e.vec3(x, k);
                      return sum / literal(e.valence() - 1) - e.vec3(x, 0);
                    },
                    {.indices = indices, .offsets = offsets});
  for (std::uint32_t v = 0; v < stars.size(); ++v) {
    Vec3 sum = y.vec3(stars[v][0]);
    for (std::size_t k = 1; k < stars[v].size(); ++k) sum += y.vec3(stars[v][k]);
    plain.add_residual(sum / literal(static_cast<double>(stars[v].size())) - y.vec3(v));
  }
  std::sort(valences.begin(), valences.end());
  // Corners of two kinds, rim, inside; each runs a second time to compare the results.
  EXPECT_EQ(valences, (std::vector<int>{3, 3, 4, 4, 5, 5, 7, 7}));
  EXPECT_EQ(map.topology_count(), 4u);
  EXPECT_EQ(plain.topology_count(), 4u);
  EXPECT_EQ(residuals(map), residuals(plain));
}

TEST(Map, NumbersMayVaryInCount) {
  std::vector<double> values = {1, 2};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::vector<std::uint32_t> indices = {0, 1, 0}, data_offsets = {0, 1, 3, 3};
  const std::vector<double> data = {10, 20, 30};
  problem.add_residuals(3,
                        [&](Element e) {
                          Value sum = e.scalar(x, 0);
                          for (int k = 0; k < e.data_count(); ++k) sum += e.data(k);
                          return sum;
                        },
                        {.indices = indices, .data = data, .data_offsets = data_offsets});
  EXPECT_EQ(residuals(problem), (std::vector<double>{11, 52, 1}));
  EXPECT_EQ(problem.topology_count(), 3u);
}

/// No instance reads one unknown through two slots.
void expect_distinct_slots(const Problem& problem) {
  for (std::size_t t = 0; t < problem.topology_count(); ++t) {
    const ir::Batch& batch = problem.batch(t);
    for (std::size_t k = 0; k < batch.size(); ++k)
      for (std::uint32_t c = 0; c < batch.parameter_columns(); ++c)
        for (std::uint32_t d = 0; d < c; ++d) EXPECT_NE(batch.index(k, c), batch.index(k, d));
  }
}

TEST(Map, ElementsWhoseIndicesMeetGetATopologyOfTheirOwn) {
  std::vector<double> values = {1, 2, 3}, others = {10, 20, 30};
  const std::vector<std::uint32_t> indices = {0, 1, 2, 2, 0, 1, 1, 1, 2, 0, 2, 2, 2, 1, 2, 1, 1, 1};
  Problem map, plain;
  std::vector<double> copy = values, other_copy = others;
  const Parameters x = map.add_parameters(values), z = map.add_parameters(others);
  const Parameters y = plain.add_parameters(copy), w = plain.add_parameters(other_copy);
  map.add_residuals(6,
                    [&](Element e) {
                      return 2 * e.scalar(x, 0) - 3 * (e.scalar(x, 1) * e.scalar(x, 2)) +
                             e.scalar(z, 0);
                    },
                    {.indices = indices});
  for (std::size_t k = 0; k < 6; ++k) {
    const std::uint32_t* i = &indices[3 * k];
    plain.add_residual(2 * y[i[0]] - 3 * (y[i[1]] * y[i[2]]) + w[i[0]]);
  }
  EXPECT_EQ(map.topology_count(), 4u);  // all different, 0 = 1 or 0 = 2, 1 = 2, all equal
  EXPECT_EQ(residuals(map), residuals(plain));
  expect_same(plain, map);
  expect_distinct_slots(map);
}

TEST(Map, ShiftedAndFixedReadsMeetToo) {
  std::vector<double> values = {1, 2, 3, 4, 5, 6};  // three blocks of two
  const std::vector<std::uint32_t> indices = {0, 2, 1, 2, 0, 1, 2, 1, 1, 1};
  Problem map, plain;
  std::vector<double> copy = values;
  const Parameters x = map.add_parameters(values, 2), y = plain.add_parameters(copy, 2);
  const auto row = [](const Vec2& a, const Vec2& b, const Value& c) {
    return a.x - 2 * b.x * a.y + 3 * b.y + 5 * c;
  };
  map.add_residuals(
      5, [&](Element e) { return row(x.vec2(e.index(0)), x.vec2(e.index(1) - 1), x(1, 1)); },
      {.indices = indices});
  for (std::size_t k = 0; k < 5; ++k)
    plain.add_residual(row(y.vec2(indices[2 * k]), y.vec2(indices[2 * k + 1] - 1), y(1, 1)));
  EXPECT_EQ(residuals(map), residuals(plain));
  expect_same(plain, map);
  expect_distinct_slots(map);
}

TEST(Map, EqualIndicesIntoDifferentArraysDoNotMeet) {
  std::vector<double> values = {1, 2}, others = {3, 4};
  Problem problem;
  const Parameters x = problem.add_parameters(values), y = problem.add_parameters(others);
  const std::vector<std::uint32_t> indices = {0, 0, 0, 1, 1, 1};
  problem.add_residuals(3, [&](Element e) { return e.scalar(x, 0) - e.scalar(y, 1); },
                        {.indices = indices});
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(residuals(problem), (std::vector<double>{-2, -3, -2}));
}

TEST(Map, GivesVectorsAndContainers) {
  std::vector<double> values = {1, 2, 3};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const std::vector<std::uint32_t> indices = {0, 1, 2};
  const MapOptions options = {.indices = indices};
  problem.add_residuals(
      3,
      [&](Element e) {
        return Vec2{e.scalar(x, 0), e.scalar(x, 0) * 2};
      },
      options);
  problem.add_residuals(
      3,
      [&](Element e) {
        return std::vector<Value>{e.scalar(x, 0), literal(7.0)};
      },
      options);
  EXPECT_EQ(residuals(problem), (std::vector<double>{1, 2, 2, 4, 3, 6, 1, 7, 2, 7, 3, 7}));
}

TEST(Map, PathsThroughTheCallableHaveAsManyRows) {
  std::vector<double> x = {1, 2, -3};
  const std::vector<std::uint32_t> indices = {0, 1, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0]);
  const auto uneven = [&](Element e) {
    std::vector<Value> rows = {e.scalar(p, 0)};
    if (rows[0] < 0.0) rows.push_back(square(rows[0]));
    return rows;
  };
  EXPECT_EQ(
      error_of([&] { problem.add_residuals(3, uneven, {.indices = indices, .label = "uneven"}); }),
      "shape: add_residuals: expected 1 rows on every path through the callable, as element "
      "0 has, got 2 for element 2, in residual \"uneven\" #3");
  EXPECT_EQ(problem.residual_count(), 1u);
  x[2] = 3;
  problem.add_residuals(3, uneven, {.indices = indices});
  EXPECT_EQ(problem.residual_count(), 4u);
}

/// A map of many elements on several threads, and the same residuals one by one.
struct ManyShapes {
  std::size_t count;
  int shapes;       // paths through the callable, by a number of the element
  bool at_the_end;  // all but the first path only among the last elements
  bool by_valence;  // paths by the number of indices instead
  bool from_array;  // numbers are entries of a Data array
};

/// Path of element e.
int way_of(const ManyShapes& m, std::size_t e) {
  if (!m.at_the_end) return static_cast<int>(e * 7 / 3 % static_cast<std::size_t>(m.shapes));
  return std::max(0, m.shapes - static_cast<int>(m.count - e));
}

/// Residuals whose topology, number of nodes and rows depend on the path.
template <class Read>
Value row_of(const ManyShapes& m, int way, const Value& number, const Read& read) {
  Value sum = read(0) - 2.0 * read(1);
  if (m.by_valence) {
    for (int k = 0; k < way; ++k) sum = sum * sum + read(2 + k);
    return sum + number;
  }
  for (int k = 1; k < m.shapes; ++k)
    if (number > k - 0.5) sum = square(sum) + sin(read(1)) * k;
  return sum + number;
}

void add_shapes(const ManyShapes& m, Problem& problem, std::vector<double>& x, bool map) {
  const Parameters p = problem.add_parameters(x);
  std::vector<std::uint32_t> indices, offsets = {0};
  std::vector<double> numbers;
  for (std::size_t e = 0; e < m.count; ++e) {
    const int way = way_of(m, e);
    for (std::size_t k = 0; k < std::size_t{2} + (m.by_valence ? way : 0); ++k)
      indices.push_back(static_cast<std::uint32_t>((e * 5 + k * (k + 11)) % x.size()));
    offsets.push_back(static_cast<std::uint32_t>(indices.size()));
    numbers.push_back(way);
  }
  const Data array = problem.add_data(numbers);
  if (map) {
    std::vector<std::uint32_t> own;
    if (m.from_array) {  // the number's index is an index of the element, too
      std::vector<std::uint32_t> with, ends = {0};
      for (std::size_t e = 0; e < m.count; ++e) {
        with.push_back(static_cast<std::uint32_t>(e));
        with.insert(with.end(), indices.begin() + offsets[e], indices.begin() + offsets[e + 1]);
        ends.push_back(static_cast<std::uint32_t>(with.size()));
      }
      indices = with;
      offsets = ends;
    }
    const int skip = m.from_array ? 1 : 0;
    problem.add_residuals(m.count,
                          [=](Element e) {
                            const auto read = [&](int k) { return e.scalar(p, k + skip); };
                            const Value number = m.from_array ? array[e.index(0)] : e.data(0);
                            return row_of(m, e.valence() - 2 - skip, number, read);
                          },
                          {.indices = indices,
                           .data = m.from_array ? std::span<const double>() : numbers,
                           .offsets = offsets,
                           .label = "many"});
    return;
  }
  for (std::size_t e = 0; e < m.count; ++e) {
    const auto read = [&](int k) {
      return p[static_cast<int>(indices[offsets[e] + static_cast<std::size_t>(k)])];
    };
    problem.add_residual(
        [&, e] {
          const Value number = m.from_array ? array[static_cast<int>(e)] : Value(numbers[e]);
          return row_of(m, way_of(m, e), number, read);
        },
        {.label = "many"});
  }
}

TEST(Map, SeveralShapesAreTheSameBlocksOnAnyNumberOfThreads) {
  for (const ManyShapes& m :
       {ManyShapes{40000, 1, false, false, false}, ManyShapes{40000, 2, false, false, false},
        ManyShapes{50000, 5, false, false, false}, ManyShapes{40000, 5, true, false, false},
        ManyShapes{40000, 2, true, true, false}, ManyShapes{40000, 5, false, true, false},
        ManyShapes{40000, 5, false, false, true}, ManyShapes{16384, 2, true, true, true},
        ManyShapes{16385, 2, true, false, false}, ManyShapes{3, 2, true, false, false}}) {
    SCOPED_TRACE(testing::Message()
                 << m.count << " elements, " << m.shapes << " shapes, at the end " << m.at_the_end
                 << ", by valence " << m.by_valence << ", from an array " << m.from_array);
    std::vector<double> x(997, 0.5), y = x;
    Problem plain;
    add_shapes(m, plain, y, false);
    for (const std::size_t threads : {1, 2, 5}) {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
      Problem map;
      add_shapes(m, map, x, true);
      EXPECT_GE(map.topology_count(), static_cast<std::size_t>(m.shapes));
      expect_same(plain, map);
      for (const std::size_t block : {std::size_t{0}, m.count - 1})
        EXPECT_EQ(map.locate(block).label, "many");
    }
  }
}

TEST(Map, SeveralShapesFollowRemovalsAndHaveLosses) {
  std::vector<double> x(101, 0.25), y = x;
  Problem plain, map;
  for (Problem* problem : {&plain, &map}) {
    std::vector<double>& values = problem == &plain ? y : x;
    const Parameters p = problem->add_parameters(values);
    const Residual gone = problem->add_residual(p[0] - 1.0);
    problem->remove(gone);  // from here on blocks are found by their ids
    const auto loss = [&](Element e) { return e.scalar(p, 0) * e.scalar(p, 1); };
    std::vector<std::uint32_t> indices;
    for (std::uint32_t e = 0; e < 20000; ++e) {
      indices.push_back(e % 101);
      indices.push_back(e % 10 == 0 ? e % 101 : (e + 1) % 101);  // some indices are equal
    }
    Residuals added;
    if (problem == &map) {
      added = problem->add_residuals(20000, loss, {.indices = indices, .loss = Loss::huber(0.5)});
    } else {
      for (std::size_t e = 0; e < 20000; ++e)
        problem->add_residual(
            p[static_cast<int>(indices[2 * e])] * p[static_cast<int>(indices[2 * e + 1])],
            {.loss = Loss::huber(0.5)});
    }
    problem->add_residual(p[3] - 2.0);
  }
  EXPECT_EQ(map.topology_count(), 3u);
  expect_same(plain, map);
  EXPECT_EQ(residuals(map), residuals(plain));
}

TEST(Map, NothingIsAddedWhereTheCallableThrows) {
  std::vector<double> x(10, 1.0);
  std::vector<std::uint32_t> indices(40000);
  std::vector<double> data(40000, 1.0);
  for (std::uint32_t e = 0; e < indices.size(); ++e) indices[e] = e % 10;
  data.back() = -1;  // takes another path, which ends there
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  const auto picky = [p](Element e) -> Value {
    if (e.data(0) < 0.0) throw std::runtime_error("no such element");
    return e.scalar(p, 0);
  };
  EXPECT_THROW(problem.add_residuals(indices.size(), picky, {.indices = indices, .data = data}),
               std::runtime_error);
  EXPECT_EQ(problem.residual_count(), 0u);
  EXPECT_EQ(problem.topology_count(), 0u);
  // The same if a copy that could be called again throws.
  struct Uncopied {
    Parameters p;
    explicit Uncopied(const Parameters& q) : p(q) {}
    Uncopied(const Uncopied& other) : p(other.p) { throw std::runtime_error("no copies"); }
    Value operator()(Element e) const {
      if (e.data(0) < 0.0) return square(e.scalar(p, 0));
      return e.scalar(p, 0);
    }
  };
  const Uncopied uncopied(p);
  EXPECT_THROW(problem.add_residuals(indices.size(), uncopied, {.indices = indices, .data = data}),
               std::runtime_error);
  EXPECT_EQ(problem.residual_count(), 0u);
  data.back() = 1;
  problem.add_residuals(indices.size(), picky, {.indices = indices, .data = data});
  EXPECT_EQ(problem.residual_count(), indices.size());
  // The first element out of range is named on any thread.
  indices[20000] = indices[39999] = 10;
  EXPECT_NE(error_of([&] {
              problem.add_residuals(indices.size(), picky, {.indices = indices, .data = data});
            }).find("element 20000 "),
            std::string::npos);
  EXPECT_EQ(problem.residual_count(), indices.size());
}

/// A star of `valence` vertices around one, as the mean of all, and as a sum over its triangles.
/// Returns processor seconds of the trace.
double trace_star(int valence) {
  std::vector<double> values(3 * (static_cast<std::size_t>(valence) + 1), 1.0);
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(valence) + 1);
  for (std::uint32_t k = 0; k < indices.size(); ++k) indices[k] = k;
  const std::clock_t start = std::clock();
  for (const bool triangles : {false, true}) {
    Problem problem;
    const Parameters x = problem.add_parameters(values, 3);
    problem.add_residuals(1,
                          [&](Element e) {
                            const Vec3 centre = e.vec3(x, 0);
                            Vec3 sum = e.vec3(x, 1);
                            for (int k = 2; k < e.valence(); ++k) {
                              const Vec3 edge = e.vec3(x, k) - centre;
                              sum += triangles ? cross(e.vec3(x, k - 1) - centre, edge) : edge;
                            }
                            return sum;
                          },
                          {.indices = indices});
    EXPECT_EQ(problem.topology_count(), 1u);
    EXPECT_EQ(problem.topology(0).program.leaves.parameters, values.size());
  }
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(Map, TraceTimeIsNearlyLinearInTheValence) {
  trace_star(100);
  const double small = trace_star(500), large = trace_star(5000);
  EXPECT_LT(large, 30 * small + 0.1) << large << " s and " << small << " s";
}

/// Elements with equal indices form separate parts, for many reads as for two.
TEST(Map, ManyReadsMeetAsFewDo) {
  std::vector<double> values(20, 1.0), copy = values;
  Problem map, plain;
  const Parameters x = map.add_parameters(values), y = plain.add_parameters(copy);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t e = 0; e < 30; ++e)
    for (std::uint32_t k = 0; k < 7; ++k) indices.push_back((e * k + e / (k + 1)) % 19);
  const auto residual = [](const auto& read) {
    Value sum = read(0);
    for (int k = 1; k < 7; ++k) sum = sum * 0.5 + sin(read(k));
    return sum;
  };
  map.add_residuals(30,
                    [&](Element e) {
                      return residual([&](int k) { return e.scalar(x, k); }) +
                             x[e.index(2) + 1] * x[3];
                    },
                    {.indices = indices});
  for (std::size_t e = 0; e < 30; ++e) {
    const auto at = [&](int k) { return indices[7 * e + static_cast<std::size_t>(k)]; };
    plain.add_residual(residual([&](int k) { return y[at(k)]; }) + y[at(2) + 1] * y[3]);
  }
  expect_same(plain, map);
}

TEST(Map, NoElementsAreNoResiduals) {
  std::vector<double> values = {1};
  Problem problem;
  const Parameters x = problem.add_parameters(values);
  const Residuals none = problem.add_residuals(0, [&](Element e) { return e.scalar(x, 0); });
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(problem.topology_count(), 0u);
}

}  // namespace
}  // namespace topograd::test
