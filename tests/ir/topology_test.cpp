// Which programs are one topology and which are not.
#include "../support/golden.hpp"

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/topology/topology.hpp"

#include <gtest/gtest.h>

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
    // Leaves that are the same leaf.
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

TEST(Topology, TiedLeavesAscend) {
  // Σ (a_k - b_k)², whose first two terms can be exchanged.
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

}  // namespace
}  // namespace topograd::test
