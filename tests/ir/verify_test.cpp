// Each invariant, broken once.
#include "../support/random_program.hpp"

#include "../../ir/text.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace topograd::test {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;

struct Broken {
  const char* what;
  void (*damage)(Program&);
  const char* message;
};

// The damaged program is: %0 = parameter 0, %1 = literal 2, %2 = mul %0, %1, %3 = sub %2, %0.
const Broken kBroken[] = {
    {"nothing", [](Program&) {}, ""},
    {"operand after user", [](Program& p) { p.nodes[2].args[1] = 3; },
     "%2 = mul %0, %3: operand %3 does not precede it"},
    {"operand is user", [](Program& p) { p.nodes[3].args[1] = 3; },
     "%3 = sub %2, %3: operand %3 does not precede it"},
    {"unused operand field", [](Program& p) { p.nodes[3].args[2] = 1; },
     "%3 = sub %2, %0: an unused operand field is not zero"},
    {"unused leaf field", [](Program& p) { p.nodes[0].args[1] = 1; },
     "%0 = parameter 0: an unused operand field is not zero"},
    {"slot beyond count", [](Program& p) { p.leaves.parameters = 0; },
     "%0 = parameter 0: slot 0 is beyond the count of 0"},
    {"tangent beyond parameters", [](Program& p) { p.nodes[0] = ir::make_leaf(Op::Tangent, 1); },
     "%0 = tangent 1: slot 1 is beyond the count of 1"},
    {"seed beyond count", [](Program& p) { p.nodes[0] = ir::make_leaf(Op::Seed, 0); },
     "%0 = seed 0: slot 0 is beyond the count of 0"},
    {"equal nodes", [](Program& p) { p.nodes[3] = p.nodes[2]; }, "%3 = mul %0, %1: it equals %2"},
    {"descending operands", [](Program& p) { std::swap(p.nodes[2].args[0], p.nodes[2].args[1]); },
     "%2 = mul %1, %0: operands of a commutative op do not ascend"},
    {"another NaN",
     [](Program& p) {
       p.nodes[1].args = {0, 1, 0x7ff80000};
     },
     "%1 = literal nan: the literal is not in canonical form"},
    {"literal's first field", [](Program& p) { p.nodes[1].args[0] = 1; },
     "%1 = literal 2: the literal is not in canonical form"},
    {"unknown op", [](Program& p) { p.nodes[2].op = static_cast<Op>(200); }, "unknown op"},
    {"output",
     [](Program& p) {
       p.outputs = {3, 4};
     },
     "output 1 is no node"},
    {"guard",
     [](Program& p) {
       p.guards = {{4, true}};
     },
     "the condition of guard 0 is no node"},
};

Program sound() {
  return ir::parse(R"(program parameters=1 {
    %0 = parameter 0 %1 = literal 2 %2 = mul %0, %1 %3 = sub %2, %0 return %3 })");
}

TEST(Verify, NamesEachViolation) {
  for (const Broken& row : kBroken) {
    Program program = sound();
    row.damage(program);
    EXPECT_EQ(ir::violation(program).value_or(""), row.message) << row.what;
  }
}

TEST(VerifyDeathTest, EndsTheProcessWithTheText) {
  Program program = sound();
  EXPECT_EXIT((ir::verify(program, "nothing"), std::exit(0)), testing::ExitedWithCode(0), "");
  program.nodes[3].args[1] = 3;
  EXPECT_DEATH(ir::verify(program, "a pass"),
               "defect in a pass: %3 = sub %2, %3: operand %3 does not precede it");
}

TEST(Verify, RandomProgramsAreSound) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Program program = random_program(seed, {.operations = seed % 50,
                                                  .outputs = 1 + seed % 4,
                                                  .guards = seed % 2,
                                                  .tree = seed % 2 == 1});
    EXPECT_EQ(ir::violation(program), std::nullopt);
  }
}

}  // namespace
}  // namespace topograd::test
