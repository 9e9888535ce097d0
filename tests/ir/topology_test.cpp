// Which programs are one topology and which are not.
#include "ir/relabel.hpp"
#include "support/golden.hpp"
#include "support/random_program.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/ir/evaluate.hpp>
#include <topograd/ir/graph.hpp>
#include <topograd/ir/text.hpp>
#include <topograd/ir/topology.hpp>
#include <topograd/ir/verify.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
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

Program program_of(const std::string& body) {
  return ir::parse(
      "program parameters=9 data=9 uniforms=9 { %a = parameter 0 %b = parameter 1 "
      "%c = parameter 2 %d = data 0 %e = data 1 %u = uniform 0 " +
      body + " }");
}

struct Pair {
  const char* first;
  const char* second;
  bool match;
};

const Pair kPairs[] = {
    {"%r = add %a, %b return %r", "%r = add %b, %a return %r", true},
    {"%r = sub %a, %b return %r", "%r = sub %b, %a return %r", true},  // other names only
    {"%r = add %a, %b return %r", "%r = add %a, %a return %r", false},
    {"%r = mul %a, %b return %r", "%r = square %a return %r", false},
    // A parameter is no datum, uniform or literal.
    {"%r = mul %a, %d return %r", "%r = mul %a, %b return %r", false},
    {"%r = mul %a, %d return %r", "%r = mul %a, %u return %r", false},
    {"%l = literal 2 %r = mul %a, %l return %r", "%r = mul %a, %d return %r", false},
    {"%l = literal 2 %r = mul %a, %l return %r", "%l = literal 3 %r = mul %a, %l return %r", false},
    {"%l = literal 0 %r = mul %a, %l return %r", "%l = literal -0 %r = mul %a, %l return %r",
     false},
    {"%r = mul %a, %d return %r", "%r = mul %c, %e return %r", true},
    // Which leaves are the same leaf.
    {"%p = add %a, %a %r = add %p, %b return %r", "%p = add %a, %b %r = add %p, %b return %r",
     false},
    {"%p = add %a, %a %r = add %p, %b return %r", "%p = add %c, %c %r = add %a, %p return %r",
     true},
    {"%p = add %a, %b %r = add %p, %b return %r", "%p = add %a, %b %r = add %a, %p return %r",
     true},
    {"%r = clamp %a, %a, %b return %r", "%r = clamp %a, %b, %b return %r", false},
    {"%r = fma %a, %b, %c return %r", "%r = fma %c, %a, %b return %r", true},
    {"%r = fma %a, %b, %a return %r", "%r = fma %b, %a, %a return %r", true},
    {"%r = fma %a, %b, %a return %r", "%r = fma %a, %a, %b return %r", false},
    // Association is structure.
    {"%p = add %a, %b %r = add %p, %c return %r", "%p = add %b, %c %r = add %a, %p return %r",
     true},
    {"%p = add %a, %b %q = sub %p, %c return %q", "%p = sub %a, %c %q = add %p, %b return %q",
     false},
    // Dead nodes are not; outputs in order are; sharing between outputs is.
    {"%r = sin %a return %r", "%x = cos %b %r = sin %c return %r", true},
    {"%r = sin %a %s = cos %a return %r, %s", "%r = sin %a %s = cos %a return %s, %r", false},
    {"%r = sin %a %s = cos %a return %r, %s", "%r = sin %a %s = cos %b return %r, %s", false},
    {"%r = sin %a return %r, %r", "%r = sin %a return %r", false},
    // Guards: condition, expectation, no order.
    {"%r = sin %a return %r", "%r = sin %a %g = lt %a, %b guard %g true return %r", false},
    {"%r = sin %a %g = lt %a, %b guard %g true return %r",
     "%r = sin %a %g = lt %a, %b guard %g false return %r", false},
    {"%r = sin %a %g = lt %a, %b guard %g true return %r",
     "%r = sin %a %g = lt %b, %a guard %g true return %r", false},
    {"%r = sin %a %g = lt %a, %b %h = lt %b, %c guard %g true guard %h false return %r",
     "%r = sin %c %g = lt %c, %a %h = lt %a, %b guard %h false guard %g true return %r", true},
};

TEST(Topology, Pairs) {
  for (const Pair& row : kPairs) {
    const Canonical x = canonicalize(program_of(row.first)),
                    y = canonicalize(program_of(row.second));
    EXPECT_EQ(x.topology.program == y.topology.program, row.match) << row.first << "\n"
                                                                   << row.second;
    EXPECT_EQ(x.topology.hash == y.topology.hash, row.match) << row.first << "\n" << row.second;
    EXPECT_EQ(explain_miss(x.topology, y.topology) == "equal", row.match);
    EXPECT_TRUE(x.exact && y.exact);
  }
}

std::vector<double> permuted(const std::vector<double>& from,
                             const std::vector<std::uint32_t>& slots) {
  std::vector<double> to;
  for (std::uint32_t slot : slots) to.push_back(from[slot]);
  return to;
}

// The canonical program, given the permuted numbers, computes the source's bits.
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
  // Few ops, all commutative: as many ties as can be.
  if (seed % 2 == 0) options.ops = {Op::Add, Op::Mul, Op::Hypot, Op::Square, Op::Sin};
  options.tree = seed % 3 == 0;
  return options;
}

TEST(Topology, RelabelledProgramsMatch) {
  int inexact = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
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

// The canonical form by trying all names: slow and plain.
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
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
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
  EXPECT_GT(forms.size(), 1000u);
  EXPECT_LT(forms.size(), 5500u);
}

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// Products of the ends of edges: summed in order, or each in a guard, which have no order.
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

// Regular graphs: colour refinement alone tells none of one size from the others.
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
    // Not vertex-transitive, yet regular: the ways of the search differ.
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
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Canonical y = canonicalize(relabel(program, seed));
        EXPECT_EQ(y.topology.program, x.topology.program) << graph.name;
      }
    }
  }
}

TEST(Topology, TiedLeavesAscend) {
  // Σ (a_k - b_k)², whose first two terms may change places.
  Graph g;
  const std::vector<std::uint32_t> slots = {7, 2, 5, 3, 6, 4};
  std::vector<Id> squares;
  for (std::size_t k = 0; k < 6; k += 2) {
    squares.push_back(g.add(Op::Square, g.add(Op::Sub, g.leaf(Op::Parameter, slots[k]),
                                              g.leaf(Op::Parameter, slots[k + 1]))));
  }
  const Id outputs[] = {
      g.add(Op::Sqrt, g.add(Op::Add, g.add(Op::Add, squares[0], squares[1]), squares[2]))};
  const Canonical canonical = canonicalize(g.extract(outputs, {.parameters = 8}));
  EXPECT_EQ(canonical.parameters, (std::vector<std::uint32_t>{7, 2, 5, 3, 6, 4}));

  // a and b are tied through two nodes: no tree, so a choice decides.
  const Canonical tied = canonicalize(
      ir::parse("program parameters=5 { %a = parameter 4 %b = parameter 3 %s = add %a, %b "
                "%m = mul %a, %b %r = div %s, %m return %r }"));
  EXPECT_EQ(tied.parameters, (std::vector<std::uint32_t>{3, 4}));
}

TEST(Topology, TangentsAndSeedsAreRefused) {
  try {
    canonicalize(ir::parse("program parameters=1 { %t = tangent 0 return %t }"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(
        error.what(),
        "canonicalize: expected a program of parameters, data and uniforms, got a tangent leaf");
  }
}

TEST(Topology, GoldenForms) {
  expect_golden_cases("tests/ir/golden/canonical.txt", [](const std::string& input) {
    const Canonical c = canonicalize(ir::parse(input));
    std::string text = to_string(c.topology.hash) + "\n" + print(c.topology.program) + "parameters";
    for (std::uint32_t slot : c.parameters) text += " " + std::to_string(slot);
    text += "\ndata";
    for (std::uint32_t slot : c.data) text += " " + std::to_string(slot);
    return text + "\n";
  });
}

TEST(Topology, GoldenMisses) {
  expect_golden_cases("tests/ir/golden/explain_miss.txt", [](const std::string& input) {
    const std::size_t second = input.find("program", 1);
    const auto topology = [](const std::string& text) {
      return canonicalize(ir::parse(text)).topology;
    };
    return explain_miss(topology(input.substr(0, second)), topology(input.substr(second))) + "\n";
  });
}

struct TimedRow {
  const char* name;
  RandomProgramOptions options;
};

TEST(Topology, IsFastOnTypicalResiduals) {
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
      const auto start = std::chrono::steady_clock::now();
      const Canonical canonical = canonicalize(program);
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
              .count());
      EXPECT_TRUE(canonical.exact);
    }
    std::sort(us.begin(), us.end());
    std::printf("%s: %zu nodes on average, %.1f us median, %.1f us at most\n", row.name,
                nodes / 200, us[100], us[199]);
    EXPECT_LT(us[100], 20'000);
  }
}

}  // namespace
}  // namespace topograd::test
