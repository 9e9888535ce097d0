// Plain JavaScript, run by Node, against the evaluator.
#include "../support/paths.hpp"
#include "../support/random_program.hpp"

#include "../../api/expression/expression.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../codegen/glsl/c_source.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <regex>
#include <set>

namespace topograd::test {
namespace {

using codegen::PlainFunction;

bool has_node() { return std::system("node --version > /dev/null 2>&1") == 0; }

/// A function and the points at which it is called.
struct Called {
  PlainFunction function;
  std::vector<Point> points;
};

/// Tangents that a function takes: one for each parameter, if any.
std::size_t tangents(const ir::Program& program) {
  const bool reads = std::ranges::any_of(
      program.nodes, [](const ir::Node& node) { return node.op == ir::Op::Tangent; });
  return reads ? program.leaves.parameters : 0;
}

/// Outputs by function, point by point.
std::vector<std::vector<double>> run_in_node(const std::vector<Called>& called) {
  TemporaryDir folder;
  std::vector<PlainFunction> functions;
  std::vector<double> numbers;
  std::string table;
  for (const Called& one : called) {
    functions.push_back(one.function);
    const ir::LeafCounts& n = one.function.program.leaves;
    table += "[" + one.function.name + "," + std::to_string(one.points.size()) + "," +
             std::to_string(n.parameters) + "," + std::to_string(n.data) + "," +
             std::to_string(n.uniforms) + "," + std::to_string(tangents(one.function.program)) +
             "," + std::to_string(one.function.program.outputs.size()) + "],\n";
    for (const Point& point : one.points) {
      for (const auto* values : {&point.parameters, &point.data, &point.uniforms})
        numbers.insert(numbers.end(), values->begin(), values->end());
      numbers.insert(
          numbers.end(), point.tangents.begin(),
          point.tangents.begin() + static_cast<std::ptrdiff_t>(tangents(one.function.program)));
    }
  }
  const std::string module = folder.path() / "f.mjs", in = folder.path() / "in",
                    out = folder.path() / "out";
  std::ofstream(module) << codegen::javascript_source(functions)
                        << "\nimport { readFileSync, writeFileSync } from 'node:fs';\n"
                           "const bytes = readFileSync(process.argv[2]);\n"
                           "const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, "
                           "bytes.byteOffset + bytes.byteLength));\n"
                           "const parts = [];\nlet at = 0;\n"
                           "for (const [f, count, p, d, u, t, outputs] of [\n" +
                               table +
                               "]) {\n"
                               "  for (let k = 0; k < count; ++k) {\n"
                               "    const out = new Float64Array(outputs);\n"
                               "    const take = (n) => numbers.subarray(at, at += n);\n"
                               "    const given = [take(p), take(d), take(u)];\n"
                               "    const along = take(t);\n"
                               "    if (f.length === 5) given.push(along);\n"
                               "    f(...given, out);\n    parts.push(...out);\n  }\n}\n"
                               "writeFileSync(process.argv[3], new Float64Array(parts));\n";
  std::ofstream(in, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(double)));
  const std::string line = "node '" + module + "' '" + in + "' '" + out + "'";
  EXPECT_EQ(std::system(line.c_str()), 0);
  std::ifstream file(out, std::ios::binary);
  std::vector<std::vector<double>> results;
  for (const Called& one : called) {
    results.emplace_back(one.points.size() * one.function.program.outputs.size());
    file.read(reinterpret_cast<char*>(results.back().data()),
              static_cast<std::streamsize>(results.back().size() * sizeof(double)));
    EXPECT_TRUE(file) << one.function.name;
  }
  return results;
}

/// The op over parameters 0, 1 and 2.
ir::Program program_of(ir::Op op) {
  ir::Graph graph;
  ir::Id args[3] = {};
  for (std::uint32_t k = 0; k < 3; ++k) args[k] = graph.leaf(ir::Op::Parameter, k);
  const ir::Id output = graph.add(op, args[0], args[1], args[2]);
  return graph.extract(std::vector{output}, {.parameters = 3});
}

/// Ops whose value is defined to the bit.
bool is_exact(ir::Op op) {
  const std::string_view function = ir::info(op).function;
  for (const char* exact :
       {"", "sqrt", "rsqrt", "sign", "floor", "ceil", "round", "trunc", "mod", "min", "max"}) {
    if (function == exact) return !ir::info(op).composite;
  }
  return false;
}

std::vector<ir::Op> exact_ops() {
  std::vector<ir::Op> ops;
  for (const ir::Op op : all_ops()) {
    if (is_exact(op)) ops.push_back(op);
  }
  return ops;
}

/// Units in the last place between two numbers; 0 for equal bits.
double ulps(double got, double expected) {
  if (same_bits(got, expected)) return 0;
  if (!std::isfinite(got) || !std::isfinite(expected))
    return std::numeric_limits<double>::infinity();
  const double size = std::abs(expected);
  return std::abs(got - expected) / (std::nextafter(size, INFINITY) - size);
}

// A module of one function has all that it calls, also for rare arguments.
TEST(JavaScriptSource, ModulesOfOneOpAreComplete) {
  const std::regex name(R"(\btg_\w+_f64\b)"), defined(R"((?:function|const|let) (tg_\w+))");
  for (const ir::Op op : all_ops()) {
    const std::string text =
        codegen::javascript_source(std::vector{PlainFunction{"f", "one op", program_of(op)}});
    std::set<std::string> there;
    for (std::sregex_iterator at(text.begin(), text.end(), defined), end; at != end; ++at)
      there.insert((*at)[1]);
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
      EXPECT_TRUE(there.contains(at->str())) << ir::info(op).name << " lacks " << at->str();
  }
}

TEST(JavaScriptSource, EveryOpAtSpecialAndOrdinaryNumbers) {
  if (!has_node()) GTEST_SKIP() << "no node (Debian: nodejs)";
  std::vector<double> numbers = special_values();
  numbers.insert(numbers.end(), {0.3, -0.7, 1.5, 2.5, -3.5, 10.25, 1e-9, 1e6, -3e9, 1e22, 1e300});
  std::vector<Called> called;
  for (const ir::Op op : all_ops()) {
    Called one{{"op_" + std::string(ir::info(op).name), "one op", program_of(op)}, {}};
    const std::size_t n = numbers.size(), second = ir::arity(op) > 1 ? n : 1,
                      third = ir::arity(op) > 2 ? n : 1;
    const std::size_t stride = third > 1 ? 17 : 1;
    for (std::size_t k = 0; k < n * second * third; k += stride) {
      one.points.push_back(
          {.parameters = {numbers[k % n], numbers[k / n % n], numbers[k / n / n % n]},
           .data = {},
           .uniforms = {},
           .tangents = {},
           .seeds = {}});
    }
    called.push_back(std::move(one));
  }
  const auto results = run_in_node(called);
  std::size_t next = 0;
  for (const ir::Op op : all_ops()) {
    const Called& one = called[next];
    const std::vector<double>& got = results[next++];
    // The host's library, which rounds to the nearest or its neighbour, is the reference.
    const double allowed = is_exact(op) ? 0 : ir::info(op).composite ? 8 : ir::info(op).ulp_f64 + 1;
    for (std::size_t k = 0; k < got.size(); ++k) {
      const std::vector<double>& p = one.points[k].parameters;
      const double expected = ir::apply<double>(op, p[0], p[1], p[2]);
      ASSERT_LE(ulps(got[k], expected), allowed)
          << ir::info(op).name << "(" << p[0] << ", " << p[1] << ", " << p[2] << ") = " << got[k]
          << ", expected " << expected;
    }
  }
}

TEST(JavaScriptSource, RandomProgramsOfExactOpsHaveTheEvaluatorsBits) {
  if (!has_node()) GTEST_SKIP() << "no node (Debian: nodejs)";
  std::vector<Called> called;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const ir::Program f = random_program(seed, {.ops = exact_ops()});
    const std::vector<std::uint32_t> slots = {0, 1, 2};
    std::vector<Point> points;
    for (std::uint64_t k = 0; k < 4; ++k)
      points.push_back(random_point(4 * seed + k, f.leaves, k == 3 ? 0.3 : 0));
    called.push_back({{"value" + std::to_string(seed), "value", f}, points});
    called.push_back(
        {{"gradient" + std::to_string(seed), "gradient", autodiff::gradient(f, slots)}, points});
  }
  const auto results = run_in_node(called);
  std::size_t compared = 0;
  for (std::size_t c = 0; c < called.size(); ++c) {
    const ir::Program& program = called[c].function.program;
    for (std::size_t k = 0; k < called[c].points.size(); ++k) {
      const auto expected = ir::evaluate<double>(program, called[c].points[k].inputs());
      for (std::size_t out = 0; out < expected.size(); ++out, ++compared) {
        ASSERT_TRUE(same_bits(results[c][k * expected.size() + out], expected[out]))
            << called[c].function.name << ", point " << k;
      }
    }
  }
  EXPECT_GT(compared, 10000u);
}

// What the export writes for each energy.
TEST(JavaScriptSource, EnergiesOfExactOpsHaveTheEvaluatorsBits) {
  if (!has_node()) GTEST_SKIP() << "no node (Debian: nodejs)";
  std::vector<Called> called;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const ir::Program f = random_program(seed, {.ops = exact_ops(), .outputs = 1});
    const std::vector<std::uint32_t> slots = {0, 1, 2};
    const std::string number = std::to_string(seed);
    std::vector<Called> three = {
        {{"slope" + number, "gradient and value", autodiff::scalar_gradient_and_value(f, slots)},
         {}},
        {{"hessian" + number, "Hessian", autodiff::hessian(f, slots)}, {}},
        {{"hvp" + number, "product", autodiff::hvp(f, slots)}, {}}};
    for (Called& one : three) {
      for (std::uint64_t k = 0; k < 4; ++k)
        one.points.push_back(
            random_point(4 * seed + k, one.function.program.leaves, k == 3 ? 0.3 : 0));
      called.push_back(std::move(one));
    }
  }
  const auto results = run_in_node(called);
  std::size_t compared = 0;
  for (std::size_t c = 0; c < called.size(); ++c) {
    const ir::Program& program = called[c].function.program;
    for (std::size_t k = 0; k < called[c].points.size(); ++k) {
      const auto expected = ir::evaluate<double>(program, called[c].points[k].inputs());
      for (std::size_t out = 0; out < expected.size(); ++out, ++compared) {
        ASSERT_TRUE(same_bits(results[c][k * expected.size() + out], expected[out]))
            << called[c].function.name << ", point " << k;
      }
    }
  }
  EXPECT_GT(compared, 10000u);
}

// Browsers do not optimise functions of any length: long ones are written in parts.
TEST(JavaScriptSource, PartsOfALongFunctionHaveTheEvaluatorsBits) {
  if (!has_node()) GTEST_SKIP() << "no node (Debian: nodejs)";
  std::vector<Called> called;
  std::size_t parts = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const ir::Program f = random_program(seed, {.operations = 4000,
                                                .ops = {ir::Op::Add, ir::Op::Sub, ir::Op::Mul,
                                                        ir::Op::Div, ir::Op::Sqrt, ir::Op::Max},
                                                .outputs = 3});
    std::vector<Point> points;
    for (std::uint64_t k = 0; k < 4; ++k) points.push_back(random_point(seed + k, f.leaves));
    called.push_back({{"long" + std::to_string(seed), "long", f}, points});
    const std::string text = codegen::javascript_source(std::vector{called.back().function});
    for (std::size_t at = 0; (at = text.find("\nfunction ", at)) != std::string::npos; ++at)
      ++parts;
    std::size_t from = 0, longest = 0;
    for (std::size_t at = 0; (at = text.find("\n}\n", from)) != std::string::npos; from = at + 1)
      longest = std::max<std::size_t>(
          longest, std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                              text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    EXPECT_LE(longest, 1600u);
  }
  EXPECT_GE(parts, 10u);
  const auto results = run_in_node(called);
  for (std::size_t c = 0; c < called.size(); ++c) {
    for (std::size_t k = 0; k < called[c].points.size(); ++k) {
      const auto expected =
          ir::evaluate<double>(called[c].function.program, called[c].points[k].inputs());
      for (std::size_t out = 0; out < expected.size(); ++out)
        EXPECT_TRUE(same_bits(results[c][k * expected.size() + out], expected[out]))
            << called[c].function.name << ", point " << k;
    }
  }
}

TEST(JavaScriptSource, RandomProgramsOfAllOpsAtOrdinaryNumbers) {
  if (!has_node()) GTEST_SKIP() << "no node (Debian: nodejs)";
  std::vector<Called> called;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Point at = random_point(seed, {.parameters = 3, .data = 2, .uniforms = 1});
    const ir::Program f = random_program(seed, {.ops = smooth_ops(), .ordinary_at = &at});
    const std::vector<std::uint32_t> slots = {0, 1, 2};
    called.push_back({{"value" + std::to_string(seed), "value", f}, {at}});
    called.push_back(
        {{"gradient" + std::to_string(seed), "gradient", autodiff::gradient(f, slots)}, {at}});
  }
  const auto results = run_in_node(called);
  for (std::size_t c = 0; c < called.size(); ++c) {
    const auto expected =
        ir::evaluate<double>(called[c].function.program, called[c].points[0].inputs());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (same_bits(results[c][k], expected[k])) continue;
      EXPECT_NEAR(results[c][k], expected[k], 1e-9 * std::max(1.0, std::abs(expected[k])))
          << called[c].function.name << " output " << k;
    }
  }
}

TEST(JavaScriptSource, IsReadable) {
  const PlainFunction function = {
      "residual", "two points",
      parse("select(x < -2, x, sqrt(abs(x))) / L", {.parameters = {"x"}, .data = {"L"}})};
  EXPECT_EQ(codegen::javascript_source(std::vector{function}), R"("use strict";

// two points: 1 parameters, 1 data, 0 uniforms -> 1 outputs
export function residual(p, d, u, out) {
  const t0 = p[0] < (-2) ? 1 : 0;
  const t1 = Math.abs(p[0]);
  const t2 = Math.sqrt(t1);
  const t3 = (t0 !== 0) ? p[0] : t2;
  const t4 = t3 / d[0];
  out[0] = t4;
}
)");
}

TEST(JavaScriptSource, RefusesWhatIsNoIdentifier) {
  try {
    codegen::javascript_source(std::vector{PlainFunction{"2f", "", program_of(ir::Op::Add)}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "javascript_source: expected an identifier as the function's name, got \"2f\"");
  }
}

}  // namespace
}  // namespace topograd::test
