// Plain C, compiled by the system's compiler, against the evaluator.
#include "../support/paths.hpp"
#include "../support/random_program.hpp"

#include "../../api/expression/expression.hpp"
#include "../../codegen/glsl/c_source.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../runtime/plan/passes.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

namespace topograd::test {
namespace {

using codegen::CFunction;
using Plain = void (*)(const double*, const double*, const double*, double*);
using WithTangents = void (*)(const double*, const double*, const double*, const double*, double*);

/// Functions compiled to a library that is loaded for as long as this lives.
class Compiled {
 public:
  explicit Compiled(const std::vector<CFunction>& functions) {
    const std::string c = folder_.path() / "f.c", so = folder_.path() / "f.so";
    std::ofstream(c) << codegen::c_source(functions);
    const std::string line =
        "cc -std=c99 -pedantic -Wall -Wextra -Werror -O1 -ffp-contract=off "
        "-shared -fPIC -o '" +
        so + "' '" + c + "' -lm";
    if (std::system(line.c_str()) == 0) library_ = dlopen(so.c_str(), RTLD_NOW);
    EXPECT_NE(library_, nullptr) << codegen::c_source(functions);
  }
  ~Compiled() {
    if (library_ != nullptr) dlclose(library_);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  template <class F>
  F function(const std::string& name) const {
    return reinterpret_cast<F>(dlsym(library_, name.c_str()));
  }
  bool loaded() const { return library_ != nullptr; }

 private:
  TemporaryDir folder_;
  void* library_ = nullptr;
};

/// The op over parameters 0, 1 and 2.
ir::Program program_of(ir::Op op) {
  ir::Graph graph;
  ir::Id args[3] = {};
  for (std::uint32_t k = 0; k < 3; ++k) args[k] = graph.leaf(ir::Op::Parameter, k);
  const ir::Id output = graph.add(op, args[0], args[1], args[2]);
  return graph.extract(std::vector{output}, {.parameters = 3});
}

/// All ops except those for which C and the evaluator call the mathematical library.
bool is_exact(ir::Op op) {
  const std::string_view function = ir::info(op).function;
  for (const char* exact :
       {"", "sqrt", "rsqrt", "sign", "floor", "ceil", "round", "trunc", "mod", "min", "max"}) {
    if (function == exact) return !ir::info(op).composite;
  }
  return false;
}

bool near(double a, double b) { return same_bits(a, b) || std::nextafter(a, b) == b; }

TEST(CSource, EveryOpGivesTheBitsOfTheEvaluator) {
  std::vector<CFunction> functions;
  for (const ir::Op op : all_ops())
    functions.push_back({"tg_op_" + std::string(ir::info(op).name), "one op", program_of(op)});
  const Compiled compiled(functions);
  ASSERT_TRUE(compiled.loaded());
  std::vector<double> numbers = special_values();
  numbers.insert(numbers.end(), {0.3, -0.7, 1.5, 2.5, -3.5, 10.25, 1e-9});
  for (const ir::Op op : all_ops()) {
    const auto f = compiled.function<Plain>("tg_op_" + std::string(ir::info(op).name));
    ASSERT_NE(f, nullptr);
    const std::size_t n = numbers.size(), third = ir::arity(op) > 2 ? n : 1,
                      second = ir::arity(op) > 1 ? n : 1;
    for (std::size_t k = 0; k < n * second * third; ++k) {
      const double p[] = {numbers[k % n], numbers[k / n % n], numbers[k / n / n % n]};
      double got = 0;
      f(p, nullptr, nullptr, &got);
      const double expected = ir::apply<double>(op, p[0], p[1], p[2]);
      ASSERT_TRUE(is_exact(op) ? same_bits(got, expected) : near(got, expected))
          << ir::info(op).name << "(" << p[0] << ", " << p[1] << ", " << p[2] << ") = " << got
          << ", expected " << expected;
    }
  }
}

TEST(CSource, EveryKernelOfAResidual) {
  const ir::Program f =
      parse("sqrt((x0 - x1)^2 + (y0 - y1)^2) - L; w * atan2(y0, x1) + max(x0, 0)",
            {.parameters = {"x0", "x1", "y0", "y1"}, .data = {"L"}, .uniforms = {"w"}});
  std::vector<CFunction> functions;
  const std::vector<std::uint32_t> slots = {0, 1, 2, 3};
  using runtime::Pass;
  const Pass passes[] = {Pass::residual, Pass::cost, Pass::gradient, Pass::jacobian, Pass::blocks};
  for (const Pass pass : passes) {
    functions.push_back({std::string(name(pass)), "a pass", pass_program(pass, f, slots)});
  }
  functions.push_back({"jtjp", "with tangents", pass_program(Pass::jtjp, f, slots)});
  functions.push_back({"vjp", "with seeds", pass_program(Pass::vjp, f, slots)});
  const Compiled compiled(functions);
  ASSERT_TRUE(compiled.loaded());
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const CFunction& function : functions) {
      Point at = random_point(seed, f.leaves);
      at.tangents.resize(4, 0.5);
      at.seeds.resize(2, 1.5);
      std::vector<double> got(function.program.outputs.size());
      if (function.name == "jtjp" || function.name == "vjp") {
        const std::vector<double>& last = function.name == "jtjp" ? at.tangents : at.seeds;
        compiled.function<WithTangents>(function.name)(at.parameters.data(), at.data.data(),
                                                       at.uniforms.data(), last.data(), got.data());
      } else {
        compiled.function<Plain>(function.name)(at.parameters.data(), at.data.data(),
                                                at.uniforms.data(), got.data());
      }
      const std::vector<double> expected = ir::evaluate<double>(function.program, at.inputs());
      for (std::size_t k = 0; k < got.size(); ++k)
        EXPECT_NEAR(got[k], expected[k], 1e-15 * std::abs(expected[k])) << function.name << k;
    }
  }
}

TEST(CSource, IsReadable) {
  const CFunction function = {"residual", "two points",
                              parse("min(x, -2) / L", {.parameters = {"x"}, .data = {"L"}})};
  EXPECT_EQ(codegen::c_source(std::vector{function}), R"(#include <math.h>

/* NaN propagates, -0 is less than +0. */
static double tg_min(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

/* two points: 1 parameters, 1 data, 0 uniforms -> 1 outputs */
void residual(const double* p, const double* d, const double* u, double* out) {
  (void)u;
  const double t0 = tg_min(p[0], (-2.0));
  const double t1 = t0 / d[0];
  out[0] = t1;
}
)");
}

TEST(CSource, RefusesWhatIsNoIdentifier) {
  try {
    codegen::c_source(std::vector{CFunction{"2f", "", program_of(ir::Op::Add)}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "c_source: expected an identifier as the function's name, got \"2f\"");
  }
}

}  // namespace
}  // namespace topograd::test
