// Chains of a million nodes, and structures with many ties: nothing recurses, nothing is quadratic.
#include "../support/random_program.hpp"
#include "relabel.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/topology/topology.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace topograd::test {
namespace {

using ir::Graph;
using ir::Id;
using ir::Op;
using ir::Program;

#ifdef NDEBUG
constexpr std::uint32_t kNodes = 1'000'000;
#else
constexpr std::uint32_t kNodes = 50'000;
#endif

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Program chain_of_functions() {
  Graph g;
  Id x = g.leaf(Op::Parameter, 0);
  for (std::uint32_t k = 0; k < kNodes; ++k) x = g.add(k % 2 ? Op::Sin : Op::Neg, x);
  const Id outputs[] = {x};
  return g.extract(outputs, {.parameters = 1});
}

Program chain_of_sums() {
  Graph g;
  Id sum = g.leaf(Op::Parameter, 0);
  for (std::uint32_t k = 1; k < kNodes / 2; ++k)
    sum = g.add(Op::Add, sum, g.leaf(Op::Parameter, k));
  const Id outputs[] = {sum};
  return g.extract(outputs, {.parameters = kNodes / 2});
}

// Every step uses the last one twice: as a tree it would have 2^n nodes.
Program chain_of_doublings() {
  Graph g;
  Id x = g.leaf(Op::Parameter, 0);
  for (std::uint32_t k = 0; k < kNodes / 2; ++k) x = g.add(Op::Add, x, g.add(Op::Sin, x));
  const Id outputs[] = {x};
  return g.extract(outputs, {.parameters = 1});
}

TEST(Scale, ChainsOfAMillionNodes) {
  for (const auto& build : {chain_of_functions, chain_of_sums, chain_of_doublings}) {
    const Program program = build();
    const auto timed = [&](const char* name, const auto& run) {
      const Stopwatch watch;
      run();
      std::printf("%s %.2f s, ", name, watch.seconds());
      EXPECT_LT(watch.seconds(), 20) << name;
    };
    std::string text;
    timed("print", [&] { text = ir::print(program); });
    timed("parse", [&] { EXPECT_EQ(ir::parse(text), program); });
    timed("verify", [&] { EXPECT_EQ(ir::violation(program), std::nullopt); });
    timed("dot", [&] { EXPECT_GT(ir::print_dot(program, "chain").size(), text.size()); });
    timed("optimize", [&] { EXPECT_LE(ir::optimize(program).nodes.size(), program.nodes.size()); });
    timed("schedule", [&] { EXPECT_EQ(ir::schedule(program).nodes.size(), program.nodes.size()); });
    timed("canonicalize", [&] {
      EXPECT_EQ(ir::canonicalize(program).topology.program.nodes.size(), program.nodes.size());
    });
    std::printf("%zu nodes\n", program.nodes.size());
  }
}

using Terms = std::vector<Id>;

Id pairwise_sum(Graph& g, Terms terms) {
  for (std::size_t n = terms.size(); n > 1; n = (n + 1) / 2) {
    for (std::size_t k = 0; k < n / 2; ++k)
      terms[k] = g.add(Op::Add, terms[2 * k], terms[2 * k + 1]);
    if (n % 2 == 1) terms[n / 2] = terms[n - 1];
  }
  return terms[0];
}

// Terms that are trees, terms that share within themselves, and terms that share with their
// neighbour.
Terms tree_terms(Graph& g, std::uint32_t n) {
  Terms terms;
  for (std::uint32_t k = 0; k < n; ++k)
    terms.push_back(g.add(Op::Square, g.leaf(Op::Parameter, k)));
  return terms;
}
Terms sharing_terms(Graph& g, std::uint32_t n) {
  Terms terms = tree_terms(g, n);
  for (Id& t : terms) t = g.add(Op::Div, t, g.add(Op::Add, g.literal(1), t));
  return terms;
}
Terms ring_terms(Graph& g, std::uint32_t n) {
  Terms terms;
  for (std::uint32_t k = 0; k < n; ++k) {
    terms.push_back(g.add(Op::Mul, g.leaf(Op::Parameter, k), g.leaf(Op::Parameter, (k + 1) % n)));
  }
  return terms;
}

TEST(Scale, SumsWithManyTies) {
  const struct {
    const char* name;
    Terms (*terms)(Graph&, std::uint32_t);
    std::uint32_t count;
  } rows[] = {{"trees", tree_terms, 64},      {"sharing", sharing_terms, 16},
              {"sharing", sharing_terms, 64}, {"ring", ring_terms, 16},
              {"ring", ring_terms, 64},       {"trees", tree_terms, 4096}};
  for (const auto& row : rows) {
    Graph g;
    const Id outputs[] = {pairwise_sum(g, row.terms(g, row.count))};
    const Program program = g.extract(outputs, {.parameters = row.count});
    const Stopwatch watch;
    const ir::Canonical canonical = ir::canonicalize(program);
    std::printf("%u %s: %.0f us%s\n", row.count, row.name, 1e6 * watch.seconds(),
                canonical.exact ? "" : ", not exact");
    EXPECT_LT(watch.seconds(), 2);
    EXPECT_TRUE(canonical.exact) << row.name << row.count;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      EXPECT_EQ(ir::canonicalize(relabel(program, seed)).topology.program,
                canonical.topology.program)
          << row.name << row.count;
    }
  }
}

struct TimedRow {
  const char* name;
  RandomProgramOptions options;
};

TEST(Scale, CanonicalFormIsFastOnTypicalResiduals) {
  const TimedRow rows[] = {
      {"trees, 20 to 200 nodes", {.leaves = {12, 4, 1}, .tree = true}},
      {"programs, 20 to 200 nodes", {.leaves = {12, 4, 1}}},
      {"commutative trees, 20 to 200 nodes",
       {.ops = {Op::Add, Op::Mul, Op::Square}, .leaves = {12, 4, 1}, .tree = true}},
      {"commutative programs, 20 to 200 nodes",
       {.ops = {Op::Add, Op::Mul, Op::Square}, .leaves = {12, 4, 1}}},
  };
  for (const TimedRow& row : rows) {
    std::vector<Program> programs;
    std::size_t nodes = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      RandomProgramOptions options = row.options;
      options.operations = 12 + seed * 150 / 200;
      programs.push_back(random_program(seed, options));
      nodes += programs.back().nodes.size();
    }
    std::vector<double> us;
    for (const Program& program : programs) {
      const Stopwatch watch;
      const ir::Canonical canonical = ir::canonicalize(program);
      us.push_back(1e6 * watch.seconds());
      EXPECT_TRUE(canonical.exact);
    }
    std::sort(us.begin(), us.end());
    std::printf("%s: %zu nodes on average, %.1f us median, %.1f us at most\n", row.name,
                nodes / 200, us[100], us[199]);
    EXPECT_LT(us[100], 5'000);
  }
}

}  // namespace
}  // namespace topograd::test
