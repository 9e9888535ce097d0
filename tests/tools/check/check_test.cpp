// The self-tests: they pass on the interpreter, cover all required cases, and find defects.
#include <gtest/gtest.h>

#include "../../../api/expression/expression.hpp"
#include "../../../api/node_values.hpp"
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/checking/random_program.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../../tools/check/programs/gradients.hpp"
#include "../../../tools/check/programs/ops.hpp"
#include "../../../tools/check/programs/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kinks.hpp"

namespace topograd::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Deviation, CountsUnitsInTheLastPlace) {
  const double after_one = std::nextafter(1.0, 2.0);
  const struct {
    ir::Op op;
    std::array<double, 3> x;
    double got, ulp;
    bool within;
  } rows[] = {
      {ir::Op::Add, {1, 2, 0}, 3, 0, true},
      {ir::Op::Add, {1, 0, 0}, after_one, 1, false},
      {ir::Op::Add, {0, -0.0, 0}, -0.0, kInf, false},
      {ir::Op::Add, {kInf, -kInf, 0}, kNan, 0, true},
      {ir::Op::Exp, {0, 0, 0}, after_one, 1, true},
      {ir::Op::Exp, {0, 0, 0}, after_one + 5e-16, 3, false},
      {ir::Op::Exp, {710, 0, 0}, kInf, 0, true},
      {ir::Op::Exp, {700, 0, 0}, kInf, 9, false},
      {ir::Op::Log, {-1, 0, 0}, kNan, 0, true},
      {ir::Op::Log, {-1, 0, 0}, 0, kInf, false},
      {ir::Op::Log, {0, 0, 0}, -kInf, 0, true},
      {ir::Op::Sin, {-0.0, 0, 0}, -0.0, 0, true},
      {ir::Op::Sin, {-0.0, 0, 0}, 0.0, kInf, false},
      {ir::Op::Fma, {0.1, 10, -1}, 0, 0, true},  // the product rounded separately
      {ir::Op::Fma, {0.1, 10, -1}, 1e-10, 0, false},
  };
  for (const auto& row : rows) {
    const ir::Deviation found = ir::deviation<double>(row.op, row.x, row.got);
    const std::string where = std::string(ir::info(row.op).name) + " " + std::to_string(row.got);
    EXPECT_EQ(found.within, row.within) << where;
    if (row.ulp == 0 || row.ulp == kInf) {
      EXPECT_EQ(row.op == ir::Op::Fma ? 0 : found.ulp, row.ulp) << where;
    }
  }
}

TEST(Check, OpsHoldTheirBoundsOnTheInterpreter) {
  const check::OpsReport report = check::check_ops({.backend = Backend::cpu, .count = 500});
  EXPECT_EQ(report.results.size(), 2 * ir::all_ops().size());
  EXPECT_EQ(report.broken, 0u);
  for (const check::OpResult& r : report.results) {
    EXPECT_GE(r.points, 500u) << r.op;
    EXPECT_EQ(r.value.broken + r.derivative.broken, 0u) << r.op << " " << name(r.precision);
    if (!ir::info(*ir::find_op(r.op)).composite && r.op != "fma") {
      EXPECT_LE(r.value.ulp, r.bound) << r.op;
    }
  }
}

TEST(Check, OneOpOrTheBasicOperationsAlone) {
  const check::Options options = {.backend = Backend::cpu, .count = 20};
  const check::OpsReport one = check::check_ops(options, 1000, "sin");
  ASSERT_EQ(one.results.size(), 2U);
  EXPECT_EQ(one.results[0].op, "sin");
  EXPECT_TRUE(one.arithmetic.empty());
  const check::OpsReport basic = check::check_ops(options, 1000, check::kBasicOperations);
  EXPECT_TRUE(basic.results.empty());
  EXPECT_EQ(basic.operands, 1000U);
  EXPECT_GE(basic.arithmetic.size(), 6U);
}

TEST(Check, RandomProgramsHoldOnTheInterpreter) {
  const check::RandomReport report = check::check_random({.backend = Backend::cpu, .count = 200});
  EXPECT_EQ(report.failures_in_all, 0u)
      << (report.failures.empty() ? ""
                                  : report.failures[0].message + "\n" + report.failures[0].program);
  EXPECT_LE(report.undecided_share, check::kMostUndecided);
  EXPECT_GE(report.rarest_op_share, 0.01) << report.rarest_op;
  EXPECT_GE(report.rarest_special_share, 0.01);
  EXPECT_GT(report.nodes, 100'000u);
  EXPECT_GT(report.end_to_end, 300u);  // of 200 programs in two precisions
  EXPECT_FALSE(report.broken());
}

TEST(Check, ProgramsHave20To200Nodes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::size_t nodes = check::numbered_program(seed).nodes.size();
    EXPECT_GE(nodes, 20u);
    EXPECT_LE(nodes, 200u);
  }
}

// The interpreter with one slightly wrong op.
class Wrong final : public runtime::RowRunner {
 public:
  Wrong(ir::Op op, Precision precision)
      : op_(op), inner_(runtime::cpu::make_row_runner(precision)) {}
  runtime::Backend backend() const override { return runtime::Backend::cpu; }
  std::string device() const override { return "wrong"; }
  Precision precision() const override { return inner_->precision(); }
  runtime::Columns run(const ir::Program& program, const runtime::Rows& rows) override {
    runtime::Columns out = inner_->run(program, rows);
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (program.nodes[program.outputs[k]].op != op_) continue;
      for (double& y : out[k]) y *= 1 + 1e-5;
    }
    return out;
  }

 private:
  ir::Op op_;
  std::unique_ptr<runtime::RowRunner> inner_;
};

std::vector<check::CheckedBackend> wrong(ir::Op op, Precision precision) {
  std::vector<check::CheckedBackend> backends;
  backends.push_back({.runner = std::make_unique<Wrong>(op, precision)});
  return backends;
}

TEST(Check, OpsFindsTheOpThatIsOff) {
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    const auto backends = wrong(ir::Op::Tanh, precision);
    const check::OpsReport report = check::check_ops({.count = 50}, backends);
    EXPECT_GT(report.broken, 0u);
    for (const check::OpResult& r : report.results) {
      EXPECT_EQ(r.value.broken > 0, r.op == "tanh") << r.op;
    }
  }
}

TEST(Check, RandomShrinksToTheOpThatIsOff) {
  const auto backends = wrong(ir::Op::Tanh, Precision::f32);
  const check::RandomReport report = check::check_random({.count = 40}, backends);
  ASSERT_FALSE(report.failures.empty());
  EXPECT_TRUE(report.broken());
  for (const check::Failure& failure : report.failures) {
    EXPECT_NE(failure.program.find("= tanh"), std::string::npos) << failure.program;
    EXPECT_LT(std::count(failure.program.begin(), failure.program.end(), '\n'), 8)
        << failure.program;
  }
}

TEST(Check, GradientOfAProblemThatIsRightAndOneThatIsNot) {
  std::vector<double> x = {0.5, 2, -1};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(p[0] * exp(p[1]) - p[2]);
  problem.add_residual(sin(p[1]) + p[0]);
  for (const check::GradientResult& r :
       check::check_gradient("small", problem, {.backend = Backend::cpu})) {
    EXPECT_FALSE(r.broken()) << r.relative_difference;
  }
  check::GradientResult off{.relative_difference = kNan, .bound = 1e-10};
  EXPECT_TRUE(off.broken());
}

TEST(Kinks, AreTheDocumentedOnesOnTheInterpreter) {
  expect_documented_kinks(check::open_backends({.backend = Backend::cpu}));
}

TEST(NodeValues, MarksTheFirstDifference) {
  const ir::Program program = parse("a * tanh(b) + L", {{"a", "b"}, {"L"}, {}});
  const std::vector<double> at = {2, 0.5, 1};
  const NodeValues same =
      node_values(program, at, {},
                  check::open_backends({.backend = Backend::cpu, .precision = Precision::f32}));
  EXPECT_FALSE(same.differs);
  EXPECT_EQ(same.text,
            R"(f32                               evaluator                 cpu
%0 = parameter 0                  2                         2
%1 = parameter 1                  0.5                       0.5
%2 = data 0                       1                         1
%3 = tanh %1                      0.462117165               0.462117165
%4 = mul %0, %3                   0.924234331               0.924234331
%5 = add %2, %4                   1.92423439                1.92423439
no difference beyond the ops' bounds
)");
  const auto [text, differs] = node_values(program, at, {}, wrong(ir::Op::Tanh, Precision::f64));
  EXPECT_TRUE(differs);
  EXPECT_NE(text.find(" <<\n%4 = mul"), std::string::npos) << text;
  EXPECT_NE(text.find("\nfirst difference: %3, tanh on cpu is "), std::string::npos) << text;
  EXPECT_NE(text.find("ulp off its operands' value 0.46211715726000974, bound 2\n"),
            std::string::npos)
      << text;
}

TEST(NodeValues, OfAProblemAndItsErrors) {
  std::vector<double> x = {0.5, 2};
  Problem problem;
  const Parameters p = problem.add_parameters(x);
  problem.add_residual(exp(p[0]), {.label = "first"});
  problem.add_residual(exp(p[1]), {.label = "second"});
  const auto backends =
      check::open_backends({.backend = Backend::cpu, .precision = Precision::f64});
  const std::string text =
      node_values(problem, {.kernel = "gradient", .instance = 1}, backends).text;
  EXPECT_EQ(text.find("gradient of residual \"second\" #1 (topology "), 0u) << text;
  EXPECT_NE(text.find("= exp %0"), std::string::npos) << text;
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message([&] { node_values(problem, {.instance = 2}, backends); }),
            "dump: no topology has an instance 2 with a residual");
  EXPECT_EQ(message([&] { node_values(problem, {.kernel = "jvp"}, backends); }),
            "dump: --values expects --kernel residual, cost, gradient, jacobian, hessian, got "
            "\"jvp\"");
}

}  // namespace
}  // namespace topograd::test
