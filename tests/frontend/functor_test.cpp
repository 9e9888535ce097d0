// Functors as residual blocks: values and derivatives, and callers' mistakes.
#include "../../frontend/functor.hpp"
#include <gtest/gtest.h>
#include "../../ir/error.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace topograd {
namespace {

struct Spring {
  double rest;
  template <class T>
  bool operator()(const T* a, const T* b, T* r) const {
    using std::sqrt;
    T sum = T(0);
    for (int k = 0; k < 3; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
    r[0] = sqrt(sum) - rest;
    return true;
  }
};

TEST(Functor, EqualOnesAreOneTopology) {
  std::vector<double> x = {0, 0, 0, 3, 0, 4, 1, 2, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x, 3);
  add_residual_block<1>(problem, Spring{2}, {p.block(0), p.block(1)});
  add_residual_block<1, 3, 3>(problem, Spring{1}, {p.block(2), p.block(0)}, {.label = "edge"});
  EXPECT_EQ(problem.topology_count(), 1u);
  EXPECT_EQ(problem.label(0, 1), "edge");

  // The same residual by plain values: another instance with the same columns.
  Value a[3], b[3], r[1];
  for (int k = 0; k < 3; ++k) {
    a[k] = p(2, k);
    b[k] = p(0, k);
  }
  Spring{1}(static_cast<const Value*>(a), static_cast<const Value*>(b), r);
  problem.add_residual(r[0]);
  EXPECT_EQ(problem.topology_count(), 1u);
  const ir::Batch& batch = problem.batch(0);
  ASSERT_EQ(batch.size(), 3u);
  for (std::uint32_t c = 0; c < batch.index_columns(); ++c)
    EXPECT_EQ(batch.index(1, c), batch.index(2, c));
  for (std::uint32_t c = 0; c < batch.data_columns(); ++c)
    EXPECT_EQ(batch.data(1, c), batch.data(2, c));
}

struct Row {
  std::string expected;
  ErrorCode code;
  std::function<void(Problem&, const Parameters&, const Parameters&)> call;
};

struct ReadsBeyond {
  template <class T>
  bool operator()(const T* a, T* r) const {
    r[0] = a[0] * a[2];
    return true;
  }
};
struct SetsTooMany {
  template <class T>
  bool operator()(const T* a, T* r) const {
    r[0] = r[1] = a[0];
    return true;
  }
};
struct Refuses {
  template <class T>
  bool operator()(const T*, T*) const {
    return false;
  }
};

TEST(Functor, MistakesAreErrorsWithTheirPlace) {
  const std::vector<Row> rows = {
      {"add_residual_block: block 1 has 2 scalars, the functor expects 3, in residual \"edge\" #0",
       ErrorCode::Shape,
       [](auto& p, auto& x, auto& y) {
         add_residual_block<1, 3, 3>(p, Spring{1}, {x.block(0), y.block(0)}, {.label = "edge"});
       }},
      {"add_residual_block: the functor reads beyond a block, or a Value that it has not set "
       "(blocks have 2 scalars), in residual #0",
       ErrorCode::Shape,
       [](auto& p, auto&, auto& y) { add_residual_block<1>(p, ReadsBeyond(), {y.block(0)}); }},
      {"add_residual_block: expected 1 rows, but the functor sets row 1, in residual #0",
       ErrorCode::Shape,
       [](auto& p, auto&, auto& y) { add_residual_block<1>(p, SetsTooMany(), {y.block(0)}); }},
      {"add_residual_block: expected 3 rows, but the functor does not set row 2, in residual #0",
       ErrorCode::Shape,
       [](auto& p, auto&, auto& y) { add_residual_block<3>(p, SetsTooMany(), {y.block(0)}); }},
      {"add_residual_block: the functor returned false while it was traced, in residual #0",
       ErrorCode::Unsupported,
       [](auto& p, auto&, auto& y) { add_residual_block<1>(p, Refuses(), {y.block(0)}); }},
      {"block: block 7 is out of range (the array has 2)", ErrorCode::InvalidArgument,
       [](auto& p, auto&, auto& y) { add_residual_block<1>(p, SetsTooMany(), {y.block(7)}); }},
  };
  for (const Row& row : rows) {
    std::vector<double> x(6), y(4);
    Problem problem;
    const Parameters px = problem.add_parameters(x, 3), py = problem.add_parameters(y, 2);
    try {
      row.call(problem, px, py);
      ADD_FAILURE() << "no error: " << row.expected;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), row.expected);
      EXPECT_EQ(error.code(), row.code) << row.expected;
    }
    EXPECT_EQ(problem.residual_block_count(), 0u);
  }
}

}  // namespace
}  // namespace topograd
