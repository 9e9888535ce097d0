// Assembly of GLSL math library sources, and the exact functions as C++.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include "../../codegen/math/glsl_as_cpp.hpp"
#include "../../codegen/math/library.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"

namespace glsl_as_cpp {
#include <math_functions.inc>
}  // namespace glsl_as_cpp

namespace topograd::codegen::test {
namespace {

constexpr Precision kPrecisions[] = {Precision::f64, Precision::f32};

TEST(MathLibrary, HasEveryFunctionThatAnOpNames) {
  for (const ir::OpInfo& op : ir::kOps) {
    if (op.function.empty()) continue;
    for (Precision precision : kPrecisions) {
      EXPECT_TRUE(math::has(op.function, precision)) << op.function;
      EXPECT_FALSE(math::spelling(op.function, precision).empty());
    }
  }
}

TEST(MathLibrary, TextDependsOnTheSetAlone) {
  for (Precision precision : kPrecisions) {
    const std::string text = math::library({"tanh", "sin", "exp"}, precision);
    EXPECT_EQ(text, math::library({"exp", "tanh", "sin", "exp"}, precision));
    EXPECT_EQ(text.find("tg_log_"), std::string::npos) << "exp, sin and tanh need no logarithm";
    EXPECT_EQ(math::library({"floor", "sqrt"}, precision), "");
  }
}

// LLVM 14 to 16 miscompile (x & ~mask) | (s & mask), chosen against x or s, for AVX-512.
TEST(MathLibrary, SelectsNoBitsByASignMask) {
  for (Precision precision : kPrecisions) {
    for (std::string_view function : math::functions()) {
      const std::string text = math::library({std::string(function)}, precision);
      EXPECT_EQ(text.find("0x7fffffffu) |"), text.npos) << function;
      EXPECT_EQ(text.find("| (floatBitsToUint(x) & 0x7fffffffu"), text.npos) << function;
    }
  }
}

// In the source of each function alone, every tg_ name has one definition, before its use.
TEST(MathLibrary, DefinesEveryNameOnceAndBeforeItsUse) {
  const std::regex definition("^(?:const )?(?:void|u?int|bool|float|double|d?vec[23]) (tg_\\w+)");
  const std::regex word("tg_\\w+");
  for (Precision precision : kPrecisions) {
    for (std::string_view function : math::functions()) {
      std::set<std::string> known;
      std::istringstream lines(math::library({std::string(function)}, precision));
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("//")) continue;
        std::smatch match;
        if (std::regex_search(line, match, definition)) {
          EXPECT_TRUE(known.insert(match[1]).second) << match[1] << " twice in " << function;
        }
        for (std::sregex_iterator it(line.begin(), line.end(), word), end; it != end; ++it) {
          EXPECT_TRUE(known.contains(it->str())) << it->str() << " in " << function;
        }
      }
      EXPECT_TRUE(known.contains(math::spelling(function, precision)));
    }
  }
}

TEST(MathLibrary, SinglePrecisionUsesNoDouble) {
  EXPECT_FALSE(std::regex_search(math::library(math::functions(), Precision::f32),
                                 std::regex("double|dvec|Double|_f64|[0-9]lf")));
}

TEST(MathLibrary, NamesAnUnknownFunction) {
  try {
    math::library({"sinc"}, Precision::f32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(), "math library: no function \"sinc\" in f32");
  }
}

template <class T>
std::vector<T> exact_points() {
  using L = std::numeric_limits<T>;
  std::vector<T> out = {0,
                        T(0.25),
                        T(0.5),
                        T(0.75),
                        1,
                        T(1.5),
                        2,
                        T(2.5),
                        T(3.5),
                        7,
                        T(1e6) + T(0.5),
                        T(1) / L::epsilon(),
                        T(0.5) / L::epsilon() - T(0.5),
                        L::min(),
                        L::denorm_min(),
                        L::max(),
                        L::infinity(),
                        T(0.1)};
  for (std::size_t i = 0, n = out.size(); i < n; ++i) out.push_back(-out[i]);
  out.push_back(L::quiet_NaN());
  std::mt19937_64 random(7);
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  for (int i = 0; i < 200; ++i) out.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  std::uniform_real_distribution<T> unit(-5, 5);
  for (int i = 0; i < 50; ++i) out.push_back(unit(random));
  return out;
}

template <class T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// An array of constants at every call took lavapipe seconds to compile.
TEST(MathLibrary, TablesAreChoices) {
  const std::regex array(R"(const \w+ \w+\[)");
  for (const Precision precision : kPrecisions)
    EXPECT_FALSE(std::regex_search(math::library(math::functions(), precision), array));
}

// The scalar evaluator is the reference: bit for bit, NaN and signed zeros included.
TEST(MathLibrary, ExactFunctionsEqualTheEvaluator) {
  struct Row {
    ir::Op op;
    double (*f64)(double);
    float (*f32)(float);
    double (*g64)(double, double);
    float (*g32)(float, float);
  };
  namespace g = glsl_as_cpp;
  const Row rows[] = {
      {ir::Op::Round, g::tg_round_f64, g::tg_round_f32, nullptr, nullptr},
      {ir::Op::Sign, g::tg_sign_f64, g::tg_sign_f32, nullptr, nullptr},
      {ir::Op::Rsqrt, g::tg_rsqrt_f64, g::tg_rsqrt_f32, nullptr, nullptr},
      {ir::Op::Mod, nullptr, nullptr, g::tg_mod_f64, g::tg_mod_f32},
      {ir::Op::Min, nullptr, nullptr, g::tg_min_f64, g::tg_min_f32},
      {ir::Op::Max, nullptr, nullptr, g::tg_max_f64, g::tg_max_f32},
  };
  const auto expect = [](auto want, auto got, ir::Op op, auto x, auto y) {
    EXPECT_TRUE(same(want, got)) << ir::info(op).name << "(" << x << ", " << y << ") = " << got
                                 << ", expected " << want;
  };
  for (const Row& row : rows) {
    for (double x : exact_points<double>()) {
      if (row.f64) expect(ir::apply<double>(row.op, x), row.f64(x), row.op, x, 0.0);
      for (double y : exact_points<double>()) {
        if (row.g64) expect(ir::apply<double>(row.op, x, y), row.g64(x, y), row.op, x, y);
      }
    }
    for (float x : exact_points<float>()) {
      if (row.f32) expect(ir::apply<float>(row.op, x), row.f32(x), row.op, x, 0.0f);
      for (float y : exact_points<float>()) {
        if (row.g32) expect(ir::apply<float>(row.op, x, y), row.g32(x, y), row.op, x, y);
      }
    }
  }
}

}  // namespace
}  // namespace topograd::codegen::test
