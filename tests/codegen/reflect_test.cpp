// Reflection of a module, and the message for each difference.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"

#include "test_shaders.hpp"

namespace topograd::codegen::test {
namespace {

ModuleLayout scale_layout() {
  return reflect(compile({.name = "scale", .glsl = kScaleShader, .includes = {}}));
}

ExpectedLayout scale_expected() {
  ExpectedLayout want;
  want.bindings = {{.set = 1,
                    .binding = 0,
                    .name = "Log_",
                    .element = Element::u32,
                    .lanes = 4,
                    .stride = 16,
                    .writeonly = true},
                   {.set = 0,
                    .binding = 0,
                    .name = "A_",
                    .element = Element::f32,
                    .stride = 4,
                    .readonly = true},
                   {.set = 0, .binding = 2, .name = "Out_", .element = Element::f32, .stride = 4}};
  want.push_constants = {{"count", 0, 4}, {"scale", 4, 4}, {"shift", 8, 8}};
  want.push_constant_size = 16;
  want.workgroup_size = {32, 2, 1};
  want.workgroup_ids[0] = 7;
  return want;
}

TEST(Reflect, ReadsTheWholeInterface) {
  const ModuleLayout got = scale_layout();
  EXPECT_NO_THROW(check(got, scale_expected(), "scale"));
  EXPECT_EQ(got.specialization_ids, (std::vector<std::uint32_t>{3, 7}));
  EXPECT_FALSE(got.uses_float64());
  EXPECT_FALSE(got.uses_subgroups());
}

TEST(Reflect, NamesWhatADeviceMustHave) {
  const auto layout = [](const std::string& head, const std::string& type,
                         const std::string& body) {
    return reflect(compile({.name = "needs",
                            .glsl = "#version 450\n" + head + "layout(local_size_x = 64) in;\n" +
                                    "layout(binding = 1) buffer B { " + type + " b[]; };\n" +
                                    "void main() { " + body + " }\n",
                            .includes = {}}));
  };
  const ModuleLayout f64 = layout("", "double", "b[0] = b[1] * b[2];");
  EXPECT_TRUE(f64.uses_float64());
  EXPECT_EQ(f64.bindings.at(0).element, Element::f64);
  EXPECT_EQ(f64.bindings.at(0).stride, 8u);
  EXPECT_EQ(f64.workgroup_size, (std::array<std::uint32_t, 3>{64, 1, 1}));
  EXPECT_EQ(f64.workgroup_ids[0], kNoSpecialization);
  const ModuleLayout add =
      layout("#extension GL_EXT_shader_atomic_float : require\n", "float", "atomicAdd(b[0], 1.0);");
  EXPECT_TRUE(add.uses_float32_atomic_add());
  EXPECT_EQ(add.extensions, std::vector<std::string>{"SPV_EXT_shader_atomic_float_add"});
  const ModuleLayout i64 = layout(
      "#extension GL_EXT_shader_atomic_int64 : require\n"
      "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n",
      "uint64_t", "atomicCompSwap(b[0], 1ul, 2ul);");
  EXPECT_TRUE(i64.uses_int64());
  EXPECT_TRUE(i64.uses_int64_atomics());
  const ModuleLayout wave = layout("#extension GL_KHR_shader_subgroup_arithmetic : require\n",
                                   "float", "b[0] = subgroupAdd(b[1]);");
  EXPECT_TRUE(wave.uses_subgroups());
}

TEST(Reflect, RefusesWhatIsNoModule) {
  const std::vector<std::uint32_t> nonsense = {1, 2, 3, 4, 5, 6};
  EXPECT_THROW(reflect(nonsense), Error);
  auto words = compile({.name = "scale", .glsl = kScaleShader, .includes = {}});
  std::size_t cut = 0;  // inside of an instruction
  for_each_instruction(words, [&](const SpirvInstruction& op, std::size_t at) {
    if (cut == 0 && at > words.size() / 2 && op.words.size() > 2) cut = at + 1;
  });
  ASSERT_GT(cut, words.size() / 2);
  words.resize(cut);
  try {
    reflect(words);
    FAIL() << "a truncated module was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
  }
}

/// The same kernel except for one line, whose matrices SPIRV-Cross cannot read.
std::vector<std::uint32_t> matrix_module(bool with_matrices) {
  const std::string line =
      "fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> m = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0); "
      "coopMatStoreNV(m, c, 0, 16, false);";
  return compile(
      {.name = "matrices",
       .glsl = "#version 450\n#extension GL_NV_cooperative_matrix : require\n"
               "#extension GL_KHR_memory_scope_semantics : require\n"
               "layout(local_size_x = 96, local_size_y = 2) in;\n"
               "layout(push_constant) uniform P { uint first; float scale; int last; };\n"
               "layout(std430, binding = 0) restrict readonly buffer A { uvec4 a[]; };\n"
               "layout(std430, binding = 2) restrict buffer D { int d[]; };\n"
               "layout(std430, binding = 1) restrict writeonly buffer C { float c[]; };\n"
               "void main() { c[first] = scale * float(a[0].x) + float(d[last]); " +
               (with_matrices ? line : std::string()) + " }\n",
       .includes = {}});
}

TEST(ReflectWords, ReadsWhatSpirvCrossReads) {
  const std::vector<std::uint32_t> plain = matrix_module(false);
  EXPECT_FALSE(has_cooperative_matrices(plain));
  const ModuleLayout want = reflect(plain);
  for (const bool matrices : {false, true}) {
    ModuleLayout got = reflect_words(matrix_module(matrices));
    ASSERT_EQ(got.bindings.size(), want.bindings.size());
    for (std::size_t k = 0; k < want.bindings.size(); ++k)
      got.bindings[k].name = want.bindings[k].name;
    ASSERT_EQ(got.push_constants.size(), want.push_constants.size());
    for (std::size_t k = 0; k < want.push_constants.size(); ++k)
      got.push_constants[k].name = want.push_constants[k].name;
    EXPECT_NO_THROW(check(got, want, "matrices"));
    if (matrices) continue;
    EXPECT_EQ(got.capabilities, want.capabilities);
  }
}

TEST(ReflectWords, ServesWhereSpirvCrossCannotRead) {
  const std::vector<std::uint32_t> module = matrix_module(true);
  EXPECT_TRUE(has_cooperative_matrices(module));
  EXPECT_THROW(reflect(module), Error);
  EXPECT_THROW(reflect_words(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW(reflect_words(std::span(module).first(module.size() - 4)), Error);
}

/// Opcodes of a module, with the number of words of each instruction.
std::multimap<std::uint32_t, std::size_t> opcodes_of(std::span<const std::uint32_t> module) {
  std::multimap<std::uint32_t, std::size_t> out;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t) {
    out.emplace(op.opcode, op.words.size());
  });
  return out;
}

TEST(KhrMatrices, HaveAUseEachAndNothingOfNvIsLeft) {
  const std::vector<std::uint32_t> nv = compile(
      {.name = "product",
       .glsl =
           "#version 450\n#extension GL_NV_cooperative_matrix : require\n"
           "#extension GL_KHR_memory_scope_semantics : require\n"
           "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
           "layout(local_size_x = 32) in;\n"
           "layout(constant_id = 0) const uint kRows = 16u;\n"
           "layout(std430, binding = 0) restrict readonly buffer A { uvec4 a[]; };\n"
           "layout(std430, binding = 1) restrict buffer C { float c[]; };\n"
           "void main() {\n"
           "  fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> x;\n"
           "  fcoopmatNV<16, gl_ScopeSubgroup, kRows, 16> y;\n"
           "  coopMatLoadNV(x, a, 0, 2, false);\n  coopMatLoadNV(y, a, 64, 2, true);\n"
           "  coopMatStoreNV(coopMatMulAddNV(x, y, fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0)),"
           " c, 0, 16, false);\n}\n",
       .includes = {}});
  const std::vector<std::uint32_t> khr = to_khr_matrices(nv);
  const auto before = opcodes_of(nv), after = opcodes_of(khr);
  std::map<std::uint32_t, std::uint32_t> value;  // of constants
  std::multiset<std::uint32_t> uses, layouts;
  for_each_instruction(khr, [&](const SpirvInstruction& op, std::size_t) {
    if (op.opcode == 43) value[op.words[2]] = op.words[3];
    if (op.opcode == 4456) uses.insert(value.at(op.words[6]));
    if (op.opcode == 4457) layouts.insert(value.at(op.words[4]));
    if (op.opcode == 4458) layouts.insert(value.at(op.words[3]));
    if (op.opcode == 17) {
      EXPECT_NE(op.words[1], 5357u);
    }
    if (op.opcode == 10) {
      EXPECT_NE(literal_string(op.words.subspan(1)), "SPV_NV_cooperative_matrix");
    }
  });
  EXPECT_EQ(uses, (std::multiset<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(layouts, (std::multiset<std::uint32_t>{0, 0, 1}));
  for (std::uint32_t k = 0; k < 4; ++k) {
    // Types have one word more; loads, stores and products have the same number.
    const auto old = before.find(5358 + k), made = after.find(4456 + k);
    EXPECT_EQ(before.count(5358 + k), after.count(4456 + k));
    EXPECT_EQ(after.count(5358 + k), 0u);
    ASSERT_NE(made, after.end());
    EXPECT_EQ(made->second, old->second + (k == 0 ? 1 : 0));
  }
  EXPECT_EQ(after.size(), before.size() + 3);  // the constants of uses
  EXPECT_LT(nv[3], khr[3]);
  EXPECT_THROW(to_khr_matrices(std::span(nv).first(6)), Error);
}

TEST(Check, NamesTheFirstDifference) {
  struct Row {
    std::function<void(ExpectedLayout&)> change;
    std::string text;
  };
  const Row rows[] = {
      {[](ExpectedLayout& w) { w.bindings[1].name = "B_"; },
       "set 0 binding 0 (\"B_\") name: expected \"B_\", got \"A_\""},
      {[](ExpectedLayout& w) { w.bindings[1].element = Element::f64; },
       "set 0 binding 0 (\"A_\") element: expected double, got float"},
      {[](ExpectedLayout& w) { w.bindings[0].lanes = 2; },
       "set 1 binding 0 (\"Log_\") element: expected uint x 2, got uint x 4"},
      {[](ExpectedLayout& w) { w.bindings[2].stride = 8; },
       "set 0 binding 2 (\"Out_\") stride: expected 8, got 4"},
      {[](ExpectedLayout& w) { w.bindings[2].readonly = true; },
       "set 0 binding 2 (\"Out_\") access: expected readonly, got read and write"},
      {[](ExpectedLayout& w) { w.bindings.pop_back(); },
       "set 0 binding 2: expected no binding, got \"Out_\""},
      {[](ExpectedLayout& w) { w.bindings.push_back({.binding = 1, .name = "X_"}); },
       "set 0 binding 1: expected \"X_\", got no binding"},
      {[](ExpectedLayout& w) { w.push_constants[1].name = "factor"; },
       "push constant 1 (\"factor\") name: expected \"factor\", got \"scale\""},
      {[](ExpectedLayout& w) { w.push_constants[2].offset = 12; },
       "push constant 2 (\"shift\") offset: expected 12, got 8"},
      {[](ExpectedLayout& w) { w.push_constants[2].size = 4; },
       "push constant 2 (\"shift\") size: expected 4, got 8"},
      {[](ExpectedLayout& w) { w.push_constants.pop_back(); },
       "number of push constants: expected 2, got 3"},
      {[](ExpectedLayout& w) { w.push_constant_size = 12; },
       "push constant bytes: expected 12, got 16"},
      {[](ExpectedLayout& w) { w.workgroup_size[0] = 64; },
       "workgroup size x: expected 64, got 32"},
      {[](ExpectedLayout& w) { w.workgroup_ids[0] = kNoSpecialization; },
       "workgroup constant x: expected none, got 7"},
      {[](ExpectedLayout& w) { w.workgroup_size[1] = 1; }, "workgroup size y: expected 1, got 2"},
  };
  const ModuleLayout got = scale_layout();
  for (const Row& row : rows) {
    ExpectedLayout want = scale_expected();
    row.change(want);
    try {
      check(got, want, "scale");
      ADD_FAILURE() << "not noticed: " << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::LayoutMismatch);
      EXPECT_EQ(std::string(error.what()), "check: kernel \"scale\": " + row.text);
    }
  }
}

}  // namespace
}  // namespace topograd::codegen::test
