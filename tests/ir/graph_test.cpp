// Interning, ordering of operands, extraction.
#include "../support/random_program.hpp"

#include "../../ir/program.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace topograd::test {
namespace {

using ir::Graph;
using ir::Id;
using ir::Op;

TEST(Graph, EqualNodesAreOne) {
  Graph g;
  const Id x = g.leaf(Op::Parameter, 0), y = g.leaf(Op::Parameter, 1), d = g.leaf(Op::Data, 0);
  EXPECT_EQ(g.leaf(Op::Parameter, 0), x);
  EXPECT_NE(d, x);
  for (const ir::OpInfo& row : ir::kOps) {
    if (row.leaf || row.arity < 2) continue;
    const Id xy = g.add(row.op, x, y, d), yx = g.add(row.op, y, x, d);
    EXPECT_EQ(xy == yx, row.commutes) << row.name;
    EXPECT_EQ(g.add(row.op, x, y, d), xy) << row.name;
    EXPECT_NE(g.add(row.op, x, x, d), xy) << row.name;
  }
}

TEST(Graph, LiteralsAreToldApartByBits) {
  Graph g;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(g.literal(0.1), g.literal(0.1));
  EXPECT_NE(g.literal(0.0), g.literal(-0.0));
  EXPECT_EQ(g.literal(nan), g.literal(-nan));
  EXPECT_NE(g.literal(0.1), g.literal(std::nextafter(0.1, 1.0)));
}

TEST(Graph, ExtractKeepsWhatIsNeeded) {
  Graph g;
  const Id x = g.leaf(Op::Parameter, 0), dead = g.add(Op::Sin, x), y = g.leaf(Op::Parameter, 1);
  const Id sum = g.add(Op::Add, x, y), below = g.add(Op::Lt, x, y);
  const Id outputs[] = {sum, sum};
  const ir::Guard guards[] = {{below, false}};
  const ir::Program p = g.extract(outputs, {.parameters = 2}, guards);
  EXPECT_EQ(p.nodes.size(), 4u);
  EXPECT_EQ(p.outputs, (std::vector<Id>{2, 2}));
  EXPECT_EQ(p.guards, (std::vector<ir::Guard>{{3, false}}));
  EXPECT_EQ(ir::violation(p), std::nullopt);
  EXPECT_EQ(g.extract({}, {.parameters = 2}).nodes.size(), 0u);
  EXPECT_EQ(g[dead].op, Op::Sin);
}

// Crowded nodes: many users of one node, from before it and after it, and each twice.
TEST(Graph, ManyUsersOfOneNodeAreFoundInTheLongRun) {
  constexpr std::uint32_t kUsers = 100'000;
  Graph g;
  std::vector<Id> leaves;
  for (std::uint32_t k = 0; k < kUsers; ++k) leaves.push_back(g.leaf(Op::Parameter, k));
  const Id hub = g.add(Op::Add, leaves.front(), leaves.back());
  const std::size_t before = g.size();
  for (int round = 0; round < 2; ++round) {
    Id previous = hub;
    for (std::uint32_t k = 0; k < kUsers; ++k) {
      const Id quotient = g.add(Op::Div, leaves[k], hub);
      EXPECT_EQ(quotient, before + 2 * k);
      previous = g.add(Op::Sub, hub, previous == hub ? quotient : previous);
      EXPECT_EQ(previous, before + 2 * k + 1);
    }
  }
  EXPECT_EQ(g.size(), before + 2 * kUsers);
}

TEST(Graph, AppendToAnEmptyGraphIsACopy) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const ir::Program program = random_program(seed, {.operations = 30, .guards = 1});
    Graph g;
    g.reserve(seed);
    const std::vector<Id> map = append(g, program);
    EXPECT_EQ(g.extract(program.outputs, program.leaves, program.guards), program);
    EXPECT_EQ(append(g, program), map);
    EXPECT_EQ(g.size(), program.nodes.size());
  }
}

}  // namespace
}  // namespace topograd::test
