// Functions of functions: as programs, on the interpreter, and with one wrong function.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../tools/check/programs/ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace topograd::test {
namespace {

using ir::Op;
using runtime::Composition;

TEST(Compositions, AreWrittenAsFormulas) {
  const struct {
    Composition ops;
    std::size_t slot;
    const char* text;
  } rows[] = {{{Op::Tan, Op::Atan}, 0, "atan(tan(a))"},
              {{Op::Sin, Op::Pow}, 0, "pow(sin(a), b)"},
              {{Op::Sin, Op::Pow}, 1, "pow(b, sin(a))"},
              {{Op::Sub, Op::Clamp}, 2, "clamp(b, c, sub(a, b))"},
              {{Op::Sin, Op::Mul, Op::Exp}, 0, "exp(mul(sin(a), b))"}};
  for (const auto& row : rows) EXPECT_EQ(runtime::text(row.ops, row.slot), row.text);
}

// Each output is the outermost op with the result of the others as another operand.
TEST(Compositions, HaveAnOutputForEachOperand) {
  const std::array<Op, 2> sub = {Op::Square, Op::Sub};
  const ir::Program program = runtime::compose(sub);
  const auto runner = runtime::cpu::make_row_runner(Precision::f64);
  const runtime::Columns out = runner->run(program, {.count = 1, .parameters = {{3}, {2}, {0}}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0][0], 9 - 2);
  EXPECT_EQ(out[1][0], 2 - 9);
  EXPECT_THROW(runtime::compose({}), Error);
}

TEST(CheckPairs, HoldOnTheInterpreter) {
  check::PairsOptions options;
  options.backend = Backend::cpu;
  options.triples = 100;
  const check::PairsReport report = check::check_pairs(options);
  const std::size_t ops = runtime::composable_ops().size();
  EXPECT_EQ(report.pairs, ops * ops);
  EXPECT_EQ(report.triples, 100u);
  EXPECT_GT(report.compared, 1'500'000u);
  EXPECT_LT(static_cast<double>(report.undecided), 0.05 * static_cast<double>(report.compared));
  for (const check::PairFailure& f : report.failures)
    ADD_FAILURE() << f.backend << " " << name(f.precision) << ": " << f.number.message();
  options.every = 0;
  EXPECT_THROW(check::check_pairs(options), Error);
}

// An interpreter whose arctangent of a tangent loses its exponent, as a driver once did.
class WrongPair final : public runtime::RowRunner {
 public:
  explicit WrongPair(Precision precision) : inner_(runtime::cpu::make_row_runner(precision)) {}
  runtime::Backend backend() const override { return runtime::Backend::cpu; }
  std::string device() const override { return "wrong"; }
  Precision precision() const override { return inner_->precision(); }
  runtime::Columns run(const ir::Program& program, const runtime::Rows& rows) override {
    runtime::Columns out = inner_->run(program, rows);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const ir::Node& node = program.nodes[program.outputs[k]];
      if (node.op != Op::Atan || program.nodes[node.args[0]].op != Op::Tan) continue;
      for (double& y : out[k]) y *= 0x1p-126;
    }
    return out;
  }

 private:
  std::unique_ptr<runtime::RowRunner> inner_;
};

TEST(CheckPairs, FindThePairThatIsWrong) {
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    std::vector<check::CheckedBackend> backends;
    backends.push_back({.runner = std::make_unique<WrongPair>(precision)});
    const std::vector<Op> ops = runtime::composable_ops();
    const auto index_of = [&](Op op) {
      return static_cast<std::uint64_t>(std::ranges::find(ops, op) - ops.begin());
    };
    // Starts with tan and ends before the next op.
    check::PairsOptions options;
    options.seed = index_of(Op::Tan) * ops.size() + index_of(Op::Atan);
    options.every = ops.size() * ops.size();
    options.triples = 0;
    const check::PairsReport report = check::check_pairs(options, backends);
    EXPECT_EQ(report.pairs, 1u);
    EXPECT_EQ(report.wrong, std::vector<std::string>{"atan(tan(a))"});
    ASSERT_EQ(report.failures.size(), 2u);
    EXPECT_EQ(report.failures[0].number.what, "value");
    EXPECT_EQ(report.failures[1].number.what, "value beside derivative");
    EXPECT_EQ(report.failures[0].number.message().find("value of atan(tan(a)) at a = 0.8"), 0u)
        << report.failures[0].number.message();
  }
}

}  // namespace
}  // namespace topograd::test
