// Canonical forms against relabelled programs, against brute force, and of symmetric graphs.
#include "../support/random_program.hpp"
#include "relabel.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/topology/topology.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace topograd::test {
namespace {

using ir::Canonical;
using ir::canonicalize;
using ir::Graph;
using ir::Id;
using ir::Op;
using ir::Program;

std::vector<double> permuted(const std::vector<double>& from,
                             const std::vector<std::uint32_t>& slots) {
  std::vector<double> to;
  for (std::uint32_t slot : slots) to.push_back(from[slot]);
  return to;
}

// The canonical program with the permuted numbers computes the source's bits.
void expect_same_values(const Program& source, const Canonical& canonical, std::uint64_t seed) {
  const Point x = random_point(seed, source.leaves);
  const Point y = {permuted(x.parameters, canonical.parameters),
                   permuted(x.data, canonical.data),
                   permuted(x.uniforms, canonical.uniforms),
                   {},
                   {}};
  const auto a = evaluate(source, x.inputs()), b = evaluate(canonical.topology.program, y.inputs());
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                         [](double s, double t) { return same_bits(s, t); }))
      << print(source) << print(canonical.topology.program);
}

RandomProgramOptions mixed_options(std::uint64_t seed) {
  RandomProgramOptions options{.operations = 1 + seed % 60,
                               .leaves = {1 + static_cast<std::uint32_t>(seed % 9), 3, 2},
                               .outputs = 1 + seed % 3,
                               .guards = seed % 4};
  // Few ops, all commutative, for as many ties as possible.
  if (seed % 2 == 0) options.ops = {Op::Add, Op::Mul, Op::Hypot, Op::Square, Op::Sin};
  options.tree = seed % 3 == 0;
  return options;
}

TEST(Topology, RelabelledProgramsMatch) {
  int inexact = 0;
  for (std::uint64_t seed = 0; seed < 2000; seed += kStride) {
    const Program program = random_program(seed, mixed_options(seed));
    const Canonical x = canonicalize(program);
    ASSERT_EQ(ir::violation(x.topology.program), std::nullopt);
    EXPECT_EQ(canonicalize(x.topology.program).topology.program, x.topology.program) << seed;
    expect_same_values(program, x, seed);
    inexact += !x.exact;
    for (std::uint64_t k = 0; k < 3; ++k) {
      const Program other = relabel(program, 10 * seed + k);
      const Canonical y = canonicalize(other);
      expect_same_values(other, y, seed);
      EXPECT_EQ(y.topology.hash, x.topology.hash);
      EXPECT_EQ(y.topology.program, x.topology.program)
          << seed << explain_miss(x.topology, y.topology) << "\n"
          << print(program);
    }
  }
  EXPECT_EQ(inexact, 0);
}

// An expression as text with parameters renamed; commutative operands in alphabetical order.
std::string spelled(const Program& program, const std::vector<std::uint32_t>& names) {
  std::vector<std::string> text;
  for (const ir::Node& n : program.nodes) {
    if (n.op == Op::Parameter) {
      text.push_back("p" + std::to_string(names[n.slot()]));
      continue;
    }
    std::vector<std::string> args;
    for (Id operand : n.operands()) args.push_back(text[operand]);
    if (ir::info(n.op).commutes) std::sort(args.begin(), args.begin() + 2);
    std::string all = std::string(ir::info(n.op).name) + "(";
    for (const std::string& arg : args) all += arg + " ";
    text.push_back(all + ")");
  }
  std::string out;
  for (Id id : program.outputs) out += text[id] + ";";
  return out;
}

// The canonical form by trying all names.
std::string least_spelling(const Program& program) {
  std::vector<std::uint32_t> names(program.leaves.parameters);
  for (std::uint32_t k = 0; k < names.size(); ++k) names[k] = k;
  std::string least;
  do {
    const std::string text = spelled(program, names);
    if (least.empty() || text < least) least = text;
  } while (std::next_permutation(names.begin(), names.end()));
  return least;
}

TEST(Topology, AgreesWithTryingAllNames) {
  std::map<std::string, std::string> form_of_spelling;
  std::set<std::string> forms;
  for (std::uint64_t seed = 0; seed < 6000; seed += kStride) {
    const Program program =
        random_program(seed, {.operations = 2 + seed % 6,
                              .ops = {Op::Add, Op::Mul, Op::Sub},
                              .leaves = {.parameters = 4, .data = 0, .uniforms = 0},
                              .outputs = 1 + seed % 2,
                              .literals = 0});
    const std::string form = print(canonicalize(program).topology.program);
    const auto [at, fresh] = form_of_spelling.emplace(least_spelling(program), form);
    EXPECT_EQ(at->second, form);
    // A new spelling with a known form would be a wrong match.
    EXPECT_EQ(forms.insert(form).second, fresh) << form;
  }
  EXPECT_GT(forms.size(), 600u / kStride);
  EXPECT_LT(forms.size(), 5500u / kStride);
}

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Products of the ends of edges: summed in order, or each in a guard; guards are unordered.
Program edge_program(const Edges& edges, std::uint32_t vertices, bool guards) {
  Graph g;
  std::vector<Id> products;
  for (const auto& [a, b] : edges) {
    products.push_back(g.add(Op::Mul, g.leaf(Op::Parameter, a), g.leaf(Op::Parameter, b)));
  }
  std::vector<ir::Guard> conditions;
  Id sum = products[0];
  for (Id p : products) {
    if (guards) conditions.push_back({p, true});
    if (!guards && p != products[0]) sum = g.add(Op::Add, sum, p);
  }
  const Id outputs[] = {guards ? g.literal(1) : sum};
  return g.extract(outputs, {.parameters = vertices}, conditions);
}

struct Symmetric {
  const char* name;
  std::uint32_t vertices;
  Edges edges;
};

// Regular graphs: colour refinement alone does not distinguish those of one size.
const Symmetric kSymmetric[] = {
    {"K33", 6, {{0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}, {2, 3}, {2, 4}, {2, 5}}},
    {"prism", 6, {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}, {0, 3}, {1, 4}, {2, 5}}},
    {"C6", 6, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}}},
    {"2 C3", 6, {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}}},
    {"Petersen",
     10,
     {{0, 1},
      {1, 2},
      {2, 3},
      {3, 4},
      {4, 0},
      {0, 5},
      {1, 6},
      {2, 7},
      {3, 8},
      {4, 9},
      {5, 7},
      {7, 9},
      {9, 6},
      {6, 8},
      {8, 5}}},
    {"pentagonal prism",
     10,
     {{0, 1},
      {1, 2},
      {2, 3},
      {3, 4},
      {4, 0},
      {0, 5},
      {1, 6},
      {2, 7},
      {3, 8},
      {4, 9},
      {5, 6},
      {6, 7},
      {7, 8},
      {8, 9},
      {9, 5}}},
    // Regular but not vertex-transitive: the paths of the search differ.
    {"K4 and prism",
     10,
     {{0, 1},
      {0, 2},
      {0, 3},
      {1, 2},
      {1, 3},
      {2, 3},
      {4, 5},
      {5, 6},
      {6, 4},
      {7, 8},
      {8, 9},
      {9, 7},
      {4, 7},
      {5, 8},
      {6, 9}}},
    {"K4 and K33",
     10,
     {{0, 1},
      {0, 2},
      {0, 3},
      {1, 2},
      {1, 3},
      {2, 3},
      {4, 7},
      {4, 8},
      {4, 9},
      {5, 7},
      {5, 8},
      {5, 9},
      {6, 7},
      {6, 8},
      {6, 9}}},
};

TEST(Topology, SymmetricGraphsNeverMatchWrongly) {
  for (const bool guards : {false, true}) {
    std::map<std::string, std::string> owner;
    for (const Symmetric& graph : kSymmetric) {
      const Program program = edge_program(graph.edges, graph.vertices, guards);
      const Canonical x = canonicalize(program);
      const auto [at, fresh] = owner.emplace(print(x.topology.program), graph.name);
      EXPECT_TRUE(fresh) << graph.name << " matches " << at->second;
      EXPECT_TRUE(x.exact) << graph.name;
      for (std::uint64_t seed = 0; seed < 50; seed += kStride) {
        const Canonical y = canonicalize(relabel(program, seed));
        EXPECT_EQ(y.topology.program, x.topology.program) << graph.name;
      }
    }
  }
}

}  // namespace
}  // namespace topograd::test
