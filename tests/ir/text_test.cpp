// The text form: print and parse are lossless, and no text ends the process.
#include "../support/random_program.hpp"

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::test {
namespace {

TEST(Text, RandomProgramsPrintAndParse) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ir::Program program =
        random_program(seed, {.operations = 1 + seed % 60,
                              .leaves = {.parameters = 4, .data = 2, .uniforms = 2, .seeds = 1},
                              .outputs = 1 + seed % 3,
                              .guards = seed % 3});
    EXPECT_EQ(ir::parse(ir::print(program)), program) << "seed " << seed;
  }
}

TEST(Text, EveryOpPrintsAndParses) {
  for (const ir::OpInfo& row : ir::kOps) {
    ir::Graph g;
    ir::Id id = 0;
    if (row.op == ir::Op::Literal) {
      id = g.literal(0.1);
    } else if (row.leaf) {
      id = g.leaf(row.op, 2);
    } else {
      ir::Id x[3];
      for (std::uint32_t k = 0; k < 3; ++k) x[k] = g.leaf(ir::Op::Parameter, k);
      id = g.add(row.op, x[0], x[1], x[2]);
    }
    const ir::Id outputs[] = {id};
    const ir::Program program =
        g.extract(outputs, {.parameters = 3, .data = 3, .uniforms = 3, .seeds = 3});
    EXPECT_EQ(ir::parse(ir::print(program)), program) << row.name;
    EXPECT_EQ(ir::find_op(row.name), row.op);
  }
  EXPECT_EQ(ir::find_op("nothing"), std::nullopt);
}

TEST(Text, TabsAndLineEndsOfWindowsAreSpaces) {
  const std::string text =
      "program parameters=1 data=0 uniforms=0 seeds=0 {\n  %0 = parameter 0\n  %1 = square %0\n"
      "  return %0, %1\n}\n";
  std::string other;
  for (const char c : text) other += c == ' ' ? "\t" : c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(ir::parse(other), ir::parse(text));
}

TEST(Text, LiteralsKeepTheirBits) {
  std::mt19937_64 random(1);
  std::vector<double> numbers = special_values();
  for (int k = 0; k < 2000; ++k) numbers.push_back(std::bit_cast<double>(random()));
  for (double x : numbers) {
    ir::Program program{.nodes = {ir::make_literal(x)}, .outputs = {0}};
    EXPECT_EQ(ir::parse(ir::print(program)), program) << x;
  }
}

// A reader ends at the end of a text, whatever follows it in memory.
TEST(Text, EndsWhereItEnds) {
  const std::string_view more = "program parameters=,";
  EXPECT_THROW(ir::parse(more.substr(0, more.size() - 1)), Error);
}

// Any damaged text parses to a program that verifies, or fails with a place.
TEST(Text, DamagedTextIsAnError) {
  std::mt19937_64 random(2);
  int failures = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::string text = ir::print(random_program(seed % 40, {.operations = 6, .guards = 1}));
    for (std::uint64_t edits = 1 + seed % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 5);
      } else {
        text[at] = "%0123 ,={}\n#x-.\xff"[random() % 16];
      }
      if (text.empty()) text = "x";
    }
    try {
      EXPECT_EQ(ir::violation(ir::parse(text)), std::nullopt) << text;
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_TRUE(std::string(error.what()).starts_with("parse: line ")) << error.what();
    }
  }
  EXPECT_GT(failures, 1000);
}

// An expression that is used twice has a name, unless it is a leaf or its negative.
TEST(Formulas, NameWhatIsUsedTwice) {
  ir::Graph g;
  const ir::Id x = g.leaf(ir::Op::Parameter, 0), minus = g.add(ir::Op::Neg, x);
  const ir::Id wave = g.add(ir::Op::Neg, g.add(ir::Op::Sin, x));
  const ir::Id outputs[] = {g.add(ir::Op::Exp, minus), g.add(ir::Op::Cos, minus),
                            g.add(ir::Op::Exp, wave), g.add(ir::Op::Cos, wave)};
  const Formulas found = formulas(g.extract(outputs, {.parameters = 1}), {.parameters = {"x"}});
  EXPECT_EQ(found.outputs, (std::vector<std::string>{"exp(-x)", "cos(-x)", "exp(t1)", "cos(t1)"}));
  ASSERT_EQ(found.definitions.size(), 1u);
  EXPECT_EQ(found.definitions[0], std::pair(std::string("t1"), std::string("-sin(x)")));
}

// A sign and a power bind more closely than a quotient.
TEST(Formulas, QuotientsByOneHaveFewParentheses) {
  ir::Graph g;
  const ir::Id x = g.leaf(ir::Op::Parameter, 0), y = g.leaf(ir::Op::Parameter, 1);
  std::vector<ir::Id> outputs;
  for (const ir::Id by : {x, g.add(ir::Op::Neg, x), g.add(ir::Op::Square, x),
                          g.add(ir::Op::Mul, x, y), g.add(ir::Op::Add, x, y)})
    outputs.push_back(g.add(ir::Op::Reciprocal, by));
  const Formulas found =
      formulas(g.extract(outputs, {.parameters = 2}), {.parameters = {"x", "y"}});
  EXPECT_EQ(found.outputs,
            (std::vector<std::string>{"1 / x", "1 / -x", "1 / x^2", "1 / (x * y)", "1 / (x + y)"}));
}

}  // namespace
}  // namespace topograd::test
