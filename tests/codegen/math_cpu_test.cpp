// The GLSL math library, compiled as C++, against MPFR over the whole range of arguments.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "../../codegen/math/glsl_as_cpp.hpp"
#include "math_reference.hpp"

namespace glsl_as_cpp {
#include <math_functions.inc>
}  // namespace glsl_as_cpp

namespace topograd::codegen::test {
namespace {

template <class T>
struct Implementation {
  std::string_view name;
  T (*unary)(T) = nullptr;
  T (*binary)(T, T) = nullptr;
};

#define UNARY(f) \
  Implementation<T> { #f, CHOOSE(f) }
#define BINARY(f) \
  Implementation<T> { #f, nullptr, CHOOSE(f) }
#define FUNCTIONS                                                                                \
  {                                                                                              \
    UNARY(exp), UNARY(exp2), UNARY(expm1), UNARY(log), UNARY(log2), UNARY(log10), UNARY(log1p),  \
        UNARY(sin), UNARY(cos), UNARY(tan), UNARY(asin), UNARY(acos), UNARY(atan), UNARY(sinh),  \
        UNARY(cosh), UNARY(tanh), UNARY(asinh), UNARY(acosh), UNARY(atanh), UNARY(cbrt),         \
        UNARY(erf), UNARY(normal_cdf), UNARY(sigmoid), UNARY(rsqrt), BINARY(pow), BINARY(atan2), \
        BINARY(hypot)                                                                            \
  }

std::vector<Implementation<double>> implementations(double) {
  using T = double;
#define CHOOSE(f) glsl_as_cpp::tg_##f##_f64
  return FUNCTIONS;
#undef CHOOSE
}
std::vector<Implementation<float>> implementations(float) {
  using T = float;
#define CHOOSE(f) glsl_as_cpp::tg_##f##_f32
  return FUNCTIONS;
#undef CHOOSE
}

// Random points of each kind; TOPOGRAD_SWEEP multiplies them for a longer look.
int random_points() {
  const char* factor = std::getenv("TOPOGRAD_SWEEP");
  return 4000 * (factor ? std::atoi(factor) : 1);
}

template <class T>
class MathCpu : public testing::Test {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(MathCpu, Types);

TYPED_TEST(MathCpu, StaysWithinItsBound) {
  using T = TypeParam;
  const auto table = implementations(T());
  ASSERT_EQ(table.size(), math_functions().size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const MathFunction& f = math_functions()[i];
    ASSERT_EQ(table[i].name, f.name);
    const std::vector<Arguments<T>> arguments = sweep<T>(f, random_points());
    std::vector<T> results;
    for (const Arguments<T>& a : arguments) {
      results.push_back(f.unary ? table[i].unary(a.x) : table[i].binary(a.x, a.y));
    }
    const Worst<T> worst = compare<T>(f, arguments, results);
    std::printf("%s %s\n", sizeof(T) == 8 ? "f64" : "f32", row(f, worst, arguments.size()).c_str());
    EXPECT_LE(worst.ulp, f.bound_of<T>()) << row(f, worst, arguments.size());
    EXPECT_EQ(worst.wrong_specials, 0) << worst.first_wrong;
  }
}

}  // namespace
}  // namespace topograd::codegen::test
