// Programs divided into what comes before a loop, its step, and what comes after, against the
// whole.
#include "../../autodiff/rolled_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "../../ir/evaluate.hpp"
#include "../../ir/verify.hpp"

namespace topograd::test {
namespace {

using autodiff::RolledProgram;
using ir::Id;
using ir::Op;
using Numbers = std::vector<double>;

/// Writes programs of three parameters and as many data slots as are asked for.
struct Writer {
  ir::Graph graph;
  std::vector<Id> rows;
  std::uint32_t data = 0;

  Id p(std::uint32_t slot) { return graph.leaf(Op::Parameter, slot); }
  Id datum(std::uint32_t slot) {
    data = std::max(data, slot + 1);
    return graph.leaf(Op::Data, slot);
  }
  Id number(double value) { return graph.literal(value); }
  Id add(Id a, Id b) { return graph.add(Op::Add, a, b); }
  Id sub(Id a, Id b) { return graph.add(Op::Sub, a, b); }
  Id mul(Id a, Id b) { return graph.add(Op::Mul, a, b); }
  Id sin(Id a) { return graph.add(Op::Sin, a); }
  ir::Program take() const { return graph.extract(rows, {.parameters = 3, .data = data}); }
};

Numbers data_of_part(const RolledProgram::Part& part, const Numbers& data, std::uint32_t step) {
  Numbers out;
  for (const RolledProgram::Datum& datum : part.data) out.push_back(data[datum.at(step)]);
  return out;
}

/// All rows, evaluated part by part.
Numbers rows_of(const RolledProgram& rolled, const Numbers& p, const Numbers& data) {
  Numbers rows;
  const auto run = [&](const RolledProgram::Part& part, const Numbers& handed, std::uint32_t step) {
    Numbers parameters = p;
    parameters.insert(parameters.end(), handed.begin(), handed.end());
    const Numbers own = data_of_part(part, data, step);
    const Numbers out = ir::evaluate<double>(part.program, {.parameters = parameters, .data = own});
    rows.insert(rows.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(part.rows));
    return Numbers(out.begin() + static_cast<std::ptrdiff_t>(part.rows), out.end());
  };
  Numbers handed = run(rolled.before, {}, 0);
  EXPECT_EQ(handed.size(), rolled.states + rolled.constants);
  for (std::uint32_t k = 0; k < rolled.steps; ++k) {
    const Numbers next = run(rolled.step, handed, k);
    EXPECT_EQ(next.size(), rolled.states);
    std::ranges::copy(next, handed.begin());
  }
  run(rolled.after, handed, 0);
  return rows;
}

/// Rolls the program and compares its rows with those of the whole, in any order, to the last bit.
std::optional<RolledProgram> check(const Writer& writer) {
  const ir::Program f = writer.take();
  std::optional<RolledProgram> rolled = autodiff::roll(f);
  if (!rolled) return rolled;
  for (const RolledProgram::Part* part : {&rolled->before, &rolled->step, &rolled->after})
    ir::verify(part->program, "roll");
  const Numbers p = {0.7, -0.4, 0.25};
  Numbers data(f.leaves.data);
  for (std::size_t k = 0; k < data.size(); ++k) data[k] = std::cos(1.7 * static_cast<double>(k));
  Numbers expected = ir::evaluate<double>(f, {.parameters = p, .data = data});
  Numbers got = rows_of(*rolled, p, data);
  std::ranges::sort(expected);
  std::ranges::sort(got);
  EXPECT_EQ(got, expected);
  return rolled;
}

constexpr std::uint32_t kSteps = 60;

TEST(RolledProgram, StepsOfAnIntegrator) {
  Writer w;
  Id y = w.number(0.3);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    y = w.add(y, w.mul(w.number(0.01), w.sub(w.p(0), w.mul(w.p(1), w.sin(y)))));
    w.rows.push_back(w.sub(y, w.datum(k)));
  }
  const auto rolled = check(w);
  ASSERT_TRUE(rolled);
  EXPECT_GE(rolled->steps, kSteps - 2);
  EXPECT_EQ(rolled->states, 1u);
  EXPECT_EQ(rolled->constants, 0u);
  EXPECT_LT(rolled->step.program.nodes.size(), 16u);
  EXPECT_LT(rolled->before.program.nodes.size() + rolled->after.program.nodes.size(), 40u);
}

TEST(RolledProgram, RowsAtTheEndOnly) {
  Writer w;
  Id y = w.p(2), v = w.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    const Id next = w.sub(v, w.mul(w.number(0.02), w.sin(y)));
    y = w.add(y, w.mul(w.number(0.02), v));
    v = next;
  }
  w.rows = {y, w.sub(v, w.datum(0)), w.p(1)};
  const auto rolled = check(w);
  ASSERT_TRUE(rolled);
  EXPECT_GE(rolled->states, 2u);
  EXPECT_GE(rolled->after.rows, 2u);
}

TEST(RolledProgram, StepsReadSeveralStepsBack) {
  for (const std::uint32_t back : {2u, 5u, 9u}) {
    Writer w;
    std::vector<Id> y;
    for (std::uint32_t k = 0; k < back; ++k) y.push_back(w.mul(w.p(k % 3), w.datum(k)));
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      y.push_back(w.add(w.mul(w.p(0), y[y.size() - 1]), w.sin(y[y.size() - back])));
      w.rows.push_back(w.sub(y.back(), w.datum(back + k)));
    }
    const auto rolled = check(w);
    ASSERT_TRUE(rolled || back > 8) << back;
    EXPECT_GE(rolled ? rolled->states : back, back);
  }
}

TEST(RolledProgram, ConstantsAreComputedOnce) {
  Writer w;
  const Id c = w.sin(w.mul(w.p(0), w.p(1)));
  Id y = w.p(2);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    y = w.sub(w.mul(c, y), w.datum(k));
    w.rows.push_back(y);
  }
  const auto rolled = check(w);
  ASSERT_TRUE(rolled);
  EXPECT_EQ(rolled->constants, 1u);
}

TEST(RolledProgram, RowsWithoutStates) {
  Writer w;
  for (std::uint32_t k = 0; k < kSteps; ++k)
    w.rows.push_back(
        w.sub(w.mul(w.p(0), w.sin(w.mul(w.p(1), w.datum(2 * k)))), w.datum(2 * k + 1)));
  const auto rolled = check(w);
  ASSERT_TRUE(rolled);
  EXPECT_EQ(rolled->states + rolled->constants, 0u);
}

TEST(RolledProgram, DataFromTheLastToTheFirst) {
  Writer w;
  Id y = w.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    y = w.add(w.mul(w.p(1), y), w.datum(kSteps - 1 - k));
    w.rows.push_back(w.sin(y));
  }
  const auto rolled = check(w);
  ASSERT_TRUE(rolled);
  EXPECT_TRUE(std::ranges::any_of(rolled->step.data, [](const auto& d) { return d.step == -1; }));
}

TEST(RolledProgram, OneOfTwoLoops) {
  Writer w;
  Id y = w.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    y = w.add(w.mul(w.p(1), y), w.datum(k));
    w.rows.push_back(y);
  }
  for (std::uint32_t k = 0; k < kSteps; ++k) y = w.sin(w.mul(w.p(2), w.sin(w.sin(w.sin(y)))));
  w.rows.push_back(y);
  EXPECT_TRUE(check(w));
}

TEST(RolledProgram, EveryOtherStepHasARow) {
  Writer w;
  Id y = w.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    y = w.add(w.mul(w.p(1), y), w.sin(y));
    if (k % 2 == 1) w.rows.push_back(w.sub(y, w.datum(k / 2)));
  }
  EXPECT_TRUE(check(w));
}

TEST(RolledProgram, NothingWithoutALoopOfItsKind) {
  Writer branches;
  Id y = branches.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k) branches.rows.push_back(y = branches.sin(y));
  ir::Program guarded = branches.take();
  EXPECT_TRUE(autodiff::roll(guarded));
  guarded.guards.push_back({guarded.outputs[0], true});
  EXPECT_FALSE(autodiff::roll(guarded));

  Writer irregular;
  for (std::uint32_t k = 0; k < kSteps; ++k)
    irregular.rows.push_back(irregular.sin(irregular.mul(irregular.p(0), irregular.datum(k * k))));
  EXPECT_FALSE(autodiff::roll(irregular.take()));

  Writer summed;  // what follows reads the numbers of all steps
  Id sum = summed.p(1);
  std::vector<Id> all;
  Id z = summed.p(0);
  for (std::uint32_t k = 0; k < kSteps; ++k)
    all.push_back(z = summed.add(summed.sin(z), summed.p(2)));
  for (const Id id : all) sum = summed.mul(sum, id);
  summed.rows = {sum};
  check(summed);
}

}  // namespace
}  // namespace topograd::test
