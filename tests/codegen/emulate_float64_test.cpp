// Modules without their doubles: valid, of the same interface, and refused where nothing stands for
// an instruction.
#include <gtest/gtest.h>

#include <spirv-tools/libspirv.hpp>
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"

namespace topograd::codegen::test {
namespace {

using Words = std::vector<std::uint32_t>;

Words shader(const std::string& body, const std::string& declarations = {}) {
  return compile({.name = "doubles",
                  .glsl = "#version 450\n" + declarations +
                          "layout(local_size_x = 8) in;\n"
                          "layout(std430, binding = 0) buffer A { double a[]; };\n"
                          "layout(std430, binding = 1) buffer B { uvec2 b[]; };\n"
                          "void main() {\n  uint i = gl_GlobalInvocationID.x;\n" +
                          body + "}\n",
                  .includes = {}});
}

std::string problems(const Words& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string text;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { text += message; });
  return tools.Validate(words) ? "" : "invalid: " + text;
}

TEST(EmulateFloat64, ModulesAreValidAndHaveNoDoubles) {
  const char* bodies[] = {
      "  precise double x = a[i] * a[i + 1u] + a[2];\n  a[i] = x / sqrt(x) - floor(-x);\n",
      "  a[i] = a[i] < a[0] && !(a[i] != a[1]) ? fma(a[i], a[1], 0.5lf) : 1e300lf;\n",
      "  dvec2 u = dvec2(a[i], a[0]) * a[1] + dvec2(0.5lf, 2.0lf);\n  a[i] = dot(u, u.yx) + "
      "u[1];\n",
      "  dvec3 u = dvec3(dvec2(a[i]), float(a[0]));\n  u.z = double(int(u.x));\n  a[i] = u.z;\n",
      "  b[i] = unpackDouble2x32(a[i]) + uvec2(double(b[0].x), uint(a[0]));\n  a[0] = "
      "packDouble2x32(b[1]);\n",
      "  for (uint k = 0u; k < 5u; ++k) a[i] += max(abs(a[k]), min(a[0], ceil(a[1])));\n",
      "  a[i] = clamp(fract(a[i]), 0.0lf, roundEven(a[0])) + mix(a[0], a[1], a[2]);\n",
      "  a[i] = isnan(a[i]) || isinf(a[0]) ? sign(a[1]) : step(a[0], trunc(a[1]));\n",
  };
  for (const char* body : bodies) {
    const Words words = emulate_float64(shader(body));
    EXPECT_EQ(problems(words), "") << body;
    const ModuleLayout layout = reflect(words);
    EXPECT_FALSE(layout.uses_float64()) << body;
    const std::string text = disassemble(words);
    EXPECT_EQ(text.find("OpTypeFloat 64"), std::string::npos) << body;
    EXPECT_EQ(text.find("f64_fma") != std::string::npos, false) << "names are left out";
    ASSERT_EQ(layout.bindings.size(), 2u);
    EXPECT_EQ(layout.bindings[0].name, "A");
    EXPECT_EQ(layout.bindings[0].stride, 8u);
    EXPECT_EQ(layout.bindings[0].element, Element::u32);
    EXPECT_EQ(layout.bindings[0].lanes, 2u);
  }
}

// Products of floats have a function of their own, component by component too.
TEST(EmulateFloat64, ProductsOfFloatsAreKnown) {
  const auto functions = [](const std::string& body) {
    const Words words = emulate_float64(shader("  vec2 f = vec2(b[i]);\n" + body));
    EXPECT_EQ(problems(words), "") << body;
    const std::string text = disassemble(words);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("= OpFunction ", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  const std::size_t general = functions("  double g = f.x;\n  a[i] = g * f.y;\n");
  EXPECT_EQ(functions("  a[i] = double(f.x) * double(f.y);\n"), general + 1);
  EXPECT_EQ(functions("  dvec2 u = dvec2(f) * dvec2(f.yx);\n  a[i] = u.x;\n"), general + 1);
}

TEST(EmulateFloat64, LeavesOtherModulesAlone) {
  const Words words =
      compile({.name = "floats",
               .glsl = "#version 450\nlayout(local_size_x = 8) in;\nlayout(binding = 0) buffer B { "
                       "float b[]; };\nvoid main() { b[0] = b[1] * b[2]; }\n",
               .includes = {}});
  EXPECT_EQ(emulate_float64(words), words);
}

TEST(EmulateFloat64, TakesOutModesOfDoubles) {
  constexpr FloatWidthControls kKeep = {.signed_zero_inf_nan_preserve = true,
                                        .denorm_preserve = true};
  const Words words =
      emulate_float64(add_float_controls(shader("  a[i] *= 2.0lf;\n"), {.f64 = kKeep}));
  EXPECT_EQ(problems(words), "");
  EXPECT_EQ(disassemble(words).find("Preserve 64"), std::string::npos);
}

TEST(EmulateFloat64, LinksOnlyWhatIsCalled) {
  const std::size_t sum = emulate_float64(shader("  a[i] += a[0];\n")).size();
  const std::size_t both = emulate_float64(shader("  a[i] += sqrt(a[0]);\n")).size();
  EXPECT_LT(sum, 4000u);
  EXPECT_GT(both, sum + 500);
}

TEST(EmulateFloat64, RefusesWhatHasNoEmulation) {
  struct Row {
    const char *body, *declarations, *part;
  };
  const Row rows[] = {
      {"  dmat2 m = dmat2(a[0]);\n  a[i] = m[1][i];\n", "", "matrix of doubles"},
      {"  a[i] = subgroupAdd(a[i]);\n", "#extension GL_KHR_shader_subgroup_arithmetic : enable\n",
       "subgroup arithmetic"},
      {"  dvec2 u = dvec2(a[0], a[1]);\n  a[i] = length(u);\n", "", "built-in function"},
  };
  for (const Row& row : rows) {
    try {
      emulate_float64(shader(row.body, row.declarations));
      ADD_FAILURE() << "accepted: " << row.body;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      EXPECT_NE(std::string(error.what()).find(row.part), std::string::npos) << error.what();
    }
  }
  const Words nonsense = {1, 2, 3};
  EXPECT_THROW(emulate_float64(nonsense), Error);
}

// Each call counts as what it calls; an addition of doubles is many instructions.
TEST(EmulateFloat64, InstructionsAreCountedWithCallsInlined) {
  const auto count = [](int calls) {
    std::string body = "  uint s = 0u;\n";
    for (int k = 0; k < calls; ++k) body += "  s += twice(b[i].x + s);\n";
    return inlined_instructions(shader(body + "  b[i].y = s;\n",
                                       "uint once(uint v) { return v * v + 1u; }\n"
                                       "uint twice(uint v) { return once(once(v) + v); }\n"));
  };
  const std::uint64_t step = count(2) - count(1);
  EXPECT_EQ(count(9) - count(1), 8 * step);
  EXPECT_GT(step, 20u);
  const auto added = [](int sums) {
    std::string body;
    for (int k = 0; k < sums; ++k) body += "  a[i] = a[i] + a[0];\n";
    return inlined_instructions(emulate_float64(shader(body)));
  };
  const std::uint64_t addition = added(2) - added(1);
  EXPECT_EQ(added(5) - added(1), 4 * addition);
  EXPECT_GT(addition, 80u);
}

}  // namespace
}  // namespace topograd::codegen::test
