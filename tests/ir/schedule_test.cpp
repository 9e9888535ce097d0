// Live values before and after scheduling.
#include "../support/random_program.hpp"

#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

using ir::Graph;
using ir::Id;
using ir::Op;

std::vector<Id> leaves(Graph& g, std::uint32_t count) {
  std::vector<Id> ids;
  for (std::uint32_t k = 0; k < count; ++k) ids.push_back(g.leaf(Op::Parameter, k));
  return ids;
}

// Sums of pairs, level by level: all leaves come first, as from a tracer.
Id balanced_sum(Graph& g, std::vector<Id> terms) {
  while (terms.size() > 1) {
    std::vector<Id> sums;
    for (std::size_t k = 0; k + 1 < terms.size(); k += 2) {
      sums.push_back(g.add(Op::Add, terms[k], terms[k + 1]));
    }
    if (terms.size() % 2 == 1) sums.push_back(terms.back());
    terms = sums;
  }
  return terms[0];
}

Id left_sum(Graph& g, const std::vector<Id>& terms) {
  Id sum = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) sum = g.add(Op::Add, sum, terms[k]);
  return sum;
}

Id right_sum(Graph& g, const std::vector<Id>& terms) {
  Id sum = terms.back();
  for (std::size_t k = terms.size() - 1; k-- > 0;) sum = g.add(Op::Sub, terms[k], sum);
  return sum;
}

// Sethi and Ullman's numbers: a full binary tree of 2^k leaves needs k + 1, a chain needs 2.
TEST(Schedule, TreesNeedTheirSethiUllmanNumber) {
  const struct {
    const char* name;
    Id (*build)(Graph&, const std::vector<Id>&);
    std::uint32_t leaves;
    std::size_t live;
  } rows[] = {
      {"one leaf", left_sum, 1, 1},
      {"pair", left_sum, 2, 2},
      {"left chain", left_sum, 64, 2},
      {"right chain", right_sum, 64, 2},
      {"balanced 4", [](Graph& g, const std::vector<Id>& x) { return balanced_sum(g, x); }, 4, 3},
      {"balanced 64", [](Graph& g, const std::vector<Id>& x) { return balanced_sum(g, x); }, 64, 7},
  };
  for (const auto& row : rows) {
    Graph g;
    const Id outputs[] = {row.build(g, leaves(g, row.leaves))};
    const ir::Program before = g.extract(outputs, {.parameters = row.leaves});
    EXPECT_EQ(max_live(before), row.leaves) << row.name;
    EXPECT_EQ(max_live(ir::schedule(before)), row.live) << row.name;
  }
}

TEST(Schedule, NeverNeedsMore) {
  std::size_t before = 0, after = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const ir::Program program =
        random_program(seed, {.operations = 10 + seed % 100, .outputs = 1 + seed % 3});
    const ir::Program scheduled = ir::schedule(program);
    EXPECT_LE(max_live(scheduled), max_live(program)) << print(program);
    EXPECT_EQ(scheduled.nodes.size(), ir::remove_dead(program).nodes.size());
    before += max_live(program);
    after += max_live(scheduled);
  }
  EXPECT_LT(after, before * 85 / 100);
  RecordProperty("live_before", static_cast<int>(before));
  RecordProperty("live_after", static_cast<int>(after));
}

}  // namespace
}  // namespace topograd::test
