// The GLSL math library on the Vulkan device, against MPFR; fewer points than on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include "../../codegen/math/library.hpp"
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/evaluate.hpp"
#include "../../runtime/device/device.hpp"

#include "../support/validation.hpp"
#include "math_reference.hpp"

namespace topograd::codegen::test {
namespace {

namespace vk = topograd::runtime::vulkan;

constexpr std::uint32_t kGroup = 64;
constexpr int kRandomPoints = 500;

std::string shader_text(std::string_view function, int arity, Precision precision) {
  const std::string type = precision == Precision::f64 ? "double" : "float";
  const std::string call = math::spelling(function, precision);
  return "#version 450\nlayout(local_size_x = " + std::to_string(kGroup) + ") in;\n" +
         "layout(push_constant) uniform Push { uint count; };\n" +
         "layout(binding = 0) readonly buffer X { " + type + " x[]; };\n" +
         "layout(binding = 1) writeonly buffer Out { " + type + " result[]; };\n" +
         "layout(binding = 2) readonly buffer Y { " + type + " y[]; };\n\n" +
         math::library({std::string(function)}, precision) +
         "\nvoid main() {\n  uint i = gl_GlobalInvocationID.x;\n  if (i >= count) return;\n" +
         "  result[i] = " + call + (arity == 1 ? "(x[i]);\n" : "(x[i], y[i]);\n") + "}\n";
}

FloatControls controls_of(const vk::Features& f) {
  return {.f32 = {.signed_zero_inf_nan_preserve = f.signed_zero_inf_nan_preserve_f32,
                  .denorm_preserve = f.denorm_preserve_f32},
          .f64 = {.signed_zero_inf_nan_preserve = f.signed_zero_inf_nan_preserve_f64,
                  .denorm_preserve = f.denorm_preserve_f64}};
}

template <class T>
std::vector<T> run(vk::Device& device, std::string_view function, int arity,
                   const std::vector<Arguments<T>>& arguments) {
  constexpr Precision kPrecision = sizeof(T) == 8 ? Precision::f64 : Precision::f32;
  const auto words = add_float_controls(compile({.name = std::string(function),
                                                 .glsl = shader_text(function, arity, kPrecision),
                                                 .includes = {}}),
                                        controls_of(device.features()));
  const vk::Kernel kernel = device.kernel({.spirv = words,
                                           .name = std::string(function),
                                           .storage_buffers = 3,
                                           .push_constant_bytes = 4,
                                           .constants = {},
                                           .local_size = {kGroup, 1, 1}});
  std::vector<T> x, y, out(arguments.size());
  for (const Arguments<T>& a : arguments) {
    x.push_back(a.x);
    y.push_back(a.y);
  }
  const std::uint64_t bytes = x.size() * sizeof(T);
  const vk::Buffer bx = device.buffer(bytes), by = device.buffer(bytes), bo = device.buffer(bytes);
  device.upload(bx, std::span<const T>(x));
  device.upload(by, std::span<const T>(y));
  vk::CommandList list = device.command_list("math");
  const vk::Binding bindings[] = {{&bx}, {&bo}, {&by}};
  const auto count = static_cast<std::uint32_t>(x.size());
  list.dispatch(kernel, bindings, vk::push_bytes(count), (count + kGroup - 1) / kGroup);
  device.submit(list).wait();
  device.download(bo, std::span<T>(out));
  return out;
}

template <class T>
class MathDevice : public topograd::test::VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (device_ && sizeof(T) == 8 && !device_->features().float64) {
      GTEST_SKIP() << "no 64-bit floats";
    }
  }
  bool keeps_subnormals() const {
    const vk::Features& f = device_->features();
    return sizeof(T) == 8 ? f.denorm_preserve_f64 : f.denorm_preserve_f32;
  }
  // GLSL allows 2.5 ulp to an f32 division; the software device rounds correctly, others may not.
  double division_slack() const { return sizeof(T) == 4 && !device_->info().software() ? 1 : 0; }
};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(MathDevice, Types);

TYPED_TEST(MathDevice, StaysWithinItsBound) {
  using T = TypeParam;
  for (const MathFunction& f : math_functions()) {
    const std::vector<Arguments<T>> arguments = sweep<T>(f, kRandomPoints);
    const std::vector<T> results = run<T>(*this->device_, f.name, f.arity(), arguments);
    const Worst<T> worst = compare<T>(f, arguments, results, !this->keeps_subnormals());
    const std::string line = row(f, worst, arguments.size());
    std::printf("%s %s\n", sizeof(T) == 8 ? "f64" : "f32", line.c_str());
    EXPECT_LE(worst.ulp, f.bound_of<T>() + this->division_slack()) << line;
    EXPECT_EQ(worst.wrong_specials, 0) << worst.first_wrong;
  }
}

// An op whose result is exact or rounds once, and the ulp that a device may be off in f32.
struct ExactOp {
  ir::Op op;
  int slack = 0;
};
constexpr ExactOp kExactOps[] = {
    {ir::Op::Abs},  {ir::Op::Ceil}, {ir::Op::Floor}, {ir::Op::Trunc}, {ir::Op::Round},
    {ir::Op::Sign}, {ir::Op::Mod},  {ir::Op::Min},   {ir::Op::Max},   {ir::Op::Sqrt, 2},
};

template <class T>
bool agrees(T want, T got, int slack) {
  if (std::isnan(want)) return std::isnan(got);
  for (int i = 0; i < slack && want != got; ++i) got = std::nextafter(got, want);
  return want == got && std::signbit(want) == std::signbit(got);
}

// Exact functions and the built-ins that kernels use directly equal the scalar evaluator bit for
// bit, signed zeros and NaN included; in f32 the square root may be off, as GLSL allows.
TYPED_TEST(MathDevice, ExactFunctionsEqualTheEvaluator) {
  using T = TypeParam;
  for (const ExactOp& row : kExactOps) {
    const ir::Op op = row.op;
    const bool two = ir::arity(op) == 2;
    const std::string_view name = ir::info(op).function.empty() ? "abs" : ir::info(op).function;
    const MathFunction points = {.name = name,
                                 .unary = two ? nullptr : mpfr_sqrt,
                                 .binary = two ? mpfr_hypot : nullptr,
                                 .edges = {0.5, 1.5, 2.5, -0.5, -2.5},
                                 .low = -5,
                                 .high = 5};
    const std::vector<Arguments<T>> arguments = sweep<T>(points, 300);
    const std::vector<T> results = run<T>(*this->device_, name, two ? 2 : 1, arguments);
    int wrong = 0;
    for (std::size_t i = 0; i < results.size() && wrong < 3; ++i) {
      const auto [x, y] = arguments[i];
      const T want = ir::apply<T>(op, x, y);
      const bool tiny = subnormal(x) || subnormal(y) || subnormal(want);
      if (tiny && !this->keeps_subnormals()) continue;
      const bool good = agrees(want, results[i], sizeof(T) == 4 ? row.slack : 0);
      wrong += !good;
      EXPECT_TRUE(good) << name << "(" << x << ", " << y << ") = " << results[i] << ", expected "
                        << want;
    }
  }
}

}  // namespace
}  // namespace topograd::codegen::test
