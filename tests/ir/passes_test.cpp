// Every pass keeps the bits of all outputs and the verdict of the guards, in float and in double.
#include "../support/random_program.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"
#include "../../ir/text.hpp"
#include "../../ir/verify.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <sstream>

namespace topograd::test {
namespace {

using ir::Id;
using ir::Op;
using ir::Program;

template <class T>
struct Outcome {
  std::vector<T> outputs;
  bool guards_hold = true;
};

template <class T>
Outcome<T> outcome(const Program& program, const Point& point) {
  const auto cast = [](const std::vector<double>& x) { return std::vector<T>(x.begin(), x.end()); };
  const auto p = cast(point.parameters), d = cast(point.data), u = cast(point.uniforms);
  const std::vector<T> values = ir::evaluate_nodes<T>(program, {p, d, u, {}, {}});
  Outcome<T> out;
  for (Id id : program.outputs) out.outputs.push_back(values[id]);
  for (const ir::Guard& g : program.guards) {
    out.guards_hold = out.guards_hold && (values[g.condition] != 0) == g.expected;
  }
  return out;
}

template <class T>
bool equal_at(const Program& a, const Program& b, const Point& point) {
  const Outcome<T> x = outcome<T>(a, point), y = outcome<T>(b, point);
  return x.guards_hold == y.guards_hold &&
         std::equal(x.outputs.begin(), x.outputs.end(), y.outputs.begin(), y.outputs.end(),
                    [](T s, T t) { return same_bits(s, t); });
}

struct Pass {
  const char* name;
  Program (*run)(const Program&);
};
constexpr Pass kPasses[] = {{"expand", ir::expand},     {"fold", ir::fold},
                            {"simplify", ir::simplify}, {"remove_dead", ir::remove_dead},
                            {"schedule", ir::schedule}, {"optimize", ir::optimize}};

std::optional<std::string> difference(const Program& program, const Pass& pass,
                                      std::uint64_t seed) {
  const Program after = pass.run(program);
  if (auto wrong = ir::violation(after)) return wrong;
  for (std::uint64_t k = 0; k < 12; ++k) {
    const Point point = random_point(100 * seed + k, program.leaves, k < 2 ? 0 : 0.7);
    if (equal_at<double>(program, after, point) && equal_at<float>(program, after, point)) continue;
    std::ostringstream out;
    out << "differs at parameters";
    for (double x : point.parameters) out << ' ' << x;
    return out.str() + "; after:\n" + print(after);
  }
  return std::nullopt;
}

void expect_same(const Program& program, const Pass& pass, std::uint64_t seed) {
  if (!difference(program, pass, seed)) return;
  const auto fails = [&](const Program& p) { return difference(p, pass, seed).has_value(); };
  const Program smallest = shrink(program, fails);
  ADD_FAILURE() << pass.name << " " << *difference(smallest, pass, seed) << "before:\n"
                << print(smallest);
}

// Ops with rules, on few leaves and many literals, so that rules apply often.
RandomProgramOptions dense_options(std::uint64_t seed) {
  return {.operations = 2 + seed % 14,
          .ops = {Op::Add,  Op::Sub,    Op::Mul,  Op::Div,  Op::Neg,   Op::Fma,   Op::Square,
                  Op::Zmul, Op::Pow,    Op::Abs,  Op::Sign, Op::Floor, Op::Round, Op::Min,
                  Op::Max,  Op::Eq,     Op::Ne,   Op::Lt,   Op::Le,    Op::And,   Op::Or,
                  Op::Not,  Op::Select, Op::Sqrt, Op::Relu, Op::Clamp},
          .leaves = {.parameters = 2, .data = 1, .uniforms = 0},
          .outputs = 1 + seed % 2,
          .guards = seed % 2,
          .literals = 0.4};
}

TEST(Passes, KeepTheBitsOfRandomPrograms) {
  for (const Pass& pass : kPasses) {
    for (std::uint64_t seed = 0; seed < 1500; seed += kStride) {
      const bool any_op = seed % 3 == 0;
      const Program program = random_program(
          seed, any_op ? RandomProgramOptions{.operations = 2 + seed % 25} : dense_options(seed));
      expect_same(program, pass, seed);
    }
  }
}

// Each op with one and two operands in each of several forms, as rules expect them.
std::vector<Id> operand_forms(ir::Graph& g) {
  const Id x = g.leaf(Op::Parameter, 0), y = g.leaf(Op::Parameter, 1);
  std::vector<Id> forms = {x,
                           y,
                           g.add(Op::Neg, x),
                           g.add(Op::Neg, y),
                           g.add(Op::Abs, x),
                           g.add(Op::Square, x),
                           g.add(Op::Lt, x, y),
                           g.add(Op::Not, x),
                           g.add(Op::Eq, x, y),
                           g.add(Op::Floor, x),
                           g.add(Op::Mul, x, y),
                           g.add(Op::Div, y, x),
                           g.add(Op::Min, x, y),
                           g.add(Op::Max, x, y),
                           g.add(Op::Select, x, y, x),
                           g.add(Op::Sqrt, x)};
  for (double c : {0.0, 1.0, 2.0, 0.5, 3.0, 1e-60, 1e60, 0x1p126, 0x1p127, HUGE_VAL}) {
    forms.push_back(g.literal(c));
    forms.push_back(g.literal(-c));
  }
  forms.push_back(g.literal(std::nan("")));
  return forms;
}

TEST(Passes, KeepTheBitsOfEveryOpOnEveryForm) {
  const Pass pass = {"optimize", ir::optimize};
  std::uint64_t changed = 0;
  for (Op op : all_ops()) {
    if (ir::arity(op) > 2) continue;
    ir::Graph g;
    const std::vector<Id> forms = operand_forms(g);
    for (std::size_t a = 0; a < forms.size(); a += kStride) {
      for (std::size_t b = 0; b < (ir::arity(op) > 1 ? forms.size() : 1); ++b) {
        const Id outputs[] = {g.add(op, forms[a], forms[b])};
        const Program program = g.extract(outputs, {.parameters = 2});
        changed += pass.run(program) != program;
        expect_same(program, pass, a * forms.size() + b);
      }
    }
  }
  EXPECT_GT(changed, 3'000u / kStride);
}

// x + −0, x && true and x || false are x on whichever side the literal stands, and so are x &&
// false and x || true literals.
TEST(Passes, LiteralsAreKnownOnEitherSide) {
  struct Row {
    Op op;
    double literal;
    bool is_literal;
  };
  for (const Row& row : {Row{Op::Add, -0.0, false}, {Op::And, 0, true}, {Op::Or, 1, true}}) {
    for (const bool first : {true, false}) {
      ir::Graph g;
      const Id before = g.literal(row.literal);
      const Id x = g.leaf(Op::Parameter, 0);
      const Id sum = first ? g.add(row.op, before, x) : g.add(row.op, x, before);
      const Program program = ir::simplify(g.extract(std::array{sum}, {.parameters = 1}));
      ASSERT_EQ(program.nodes.size(), 1u) << ir::info(row.op).name << ", literal first: " << first;
      EXPECT_EQ(program.nodes[0].op == Op::Literal, row.is_literal);
    }
  }
}

// A minimum of numbers one of which is in it already, on either side, is the one there is.
TEST(Passes, ExtremaOfWhatTheyHaveAreOne) {
  for (const Op op : {Op::Min, Op::Max}) {
    for (const bool swapped : {false, true}) {
      for (const std::uint32_t slot : {0U, 1U}) {
        ir::Graph g;
        const Id x = g.leaf(Op::Parameter, 0), y = g.leaf(Op::Parameter, 1);
        const Id inner = g.add(op, g.add(Op::Exp, x), y);
        const Id other = slot == 0 ? g.add(Op::Exp, x) : y;
        const Id outputs[] = {swapped ? g.add(op, other, inner) : g.add(op, inner, other)};
        const ir::Program program = ir::optimize(g.extract(outputs, {.parameters = 2}));
        EXPECT_EQ(ir::operation_count(program), 2u) << swapped << slot;
      }
    }
  }
}

TEST(Passes, SettleAndNeverGrow) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Program program = ir::expand(random_program(seed, dense_options(seed)));
    const Program once = ir::optimize(program);
    EXPECT_LE(operation_count(once), operation_count(program)) << print(program);
    EXPECT_EQ(ir::optimize(once), once) << print(program);
  }
}

TEST(Expand, LeavesNoCompositeOp) {
  for (Op op : all_ops()) {
    ir::Graph g;
    const Id outputs[] = {
        g.add(op, g.leaf(Op::Parameter, 0), g.leaf(Op::Parameter, 1), g.leaf(Op::Parameter, 2))};
    const Program after = ir::expand(g.extract(outputs, {.parameters = 3}));
    for (const ir::Node& n : after.nodes) {
      EXPECT_FALSE(ir::info(n.op).composite) << ir::info(op).name;
    }
  }
}

}  // namespace
}  // namespace topograd::test
