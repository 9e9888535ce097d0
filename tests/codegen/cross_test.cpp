// Other dialects: generated source, and unsupported features.
#include <gtest/gtest.h>

#include "../../codegen/spirv/cross.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"

#include "test_shaders.hpp"

namespace topograd::codegen::test {
namespace {

constexpr Dialect kDialects[] = {Dialect::HLSL, Dialect::MSL, Dialect::ESSL};

TEST(Cross, KeepsNamesAndArithmetic) {
  const auto words = compile({.name = "scale", .glsl = kScaleShader, .includes = {}});
  const struct {
    Dialect dialect;
    std::vector<std::string> parts;
  } rows[] = {
      {Dialect::HLSL, {"ByteAddressBuffer", "numthreads", "precise float"}},
      {Dialect::MSL, {"#include <metal_stdlib>", "kernel void", "[[buffer("}},
      {Dialect::ESSL, {"#version 310 es", "std430) readonly buffer", "push.count"}},
  };
  for (const auto& row : rows) {
    const std::string text = cross(words, row.dialect);
    for (const std::string& part : row.parts) {
      EXPECT_NE(text.find(part), std::string::npos)
          << name(row.dialect) << " lacks " << part << "\n"
          << text;
    }
  }
}

TEST(Cross, RefusesByDialectAndFeature) {
  const auto shader = [](const std::string& head, const std::string& type,
                         const std::string& body) {
    return compile({.name = "needs",
                    .glsl = "#version 450\n" + head + "layout(binding = 1) buffer B { " + type +
                            " b[]; };\nvoid main() { " + body + " }\n",
                    .includes = {}});
  };
  const std::string int64 = "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
  struct Row {
    std::vector<std::uint32_t> words;
    std::string feature;
    bool refused[3];
  };
  const Row rows[] = {
      {shader("", "double", "b[0] = b[1] * b[2];"), "64-bit floats", {true, true, true}},
      {shader("#extension GL_EXT_shader_atomic_float : require\n", "float",
              "atomicAdd(b[0], 1.0);"),
       "32-bit float atomics",
       {true, true, true}},
      {shader(int64 + "#extension GL_EXT_shader_atomic_int64 : require\n", "uint64_t",
              "atomicMax(b[0], 1ul);"),
       "64-bit integer atomics",
       {true, true, true}},
      {shader(int64, "uint64_t", "b[0] = b[1] * b[2];"), "64-bit integers", {true, false, true}},
      {shader("#extension GL_EXT_shader_atomic_float : require\n", "double",
              "atomicAdd(b[0], 1.0lf);"),
       "64-bit float atomics",
       {true, true, true}},
  };
  for (const Row& row : rows) {
    for (std::size_t d = 0; d < 3; ++d) {
      std::string text = "(printed)";
      try {
        cross(row.words, kDialects[d]);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::Unsupported);
        text = error.what();
      }
      const std::string refusal =
          "cross: " + std::string(name(kDialects[d])) + " cannot say: " + row.feature;
      EXPECT_EQ(text, row.refused[d] ? refusal : "(printed)");
    }
  }
}

TEST(Cross, RefusesWhatIsNoModule) {
  const std::vector<std::uint32_t> nonsense = {1, 2, 3, 4, 5, 6};
  for (Dialect dialect : kDialects) EXPECT_THROW(cross(nonsense, dialect), Error);
}

}  // namespace
}  // namespace topograd::codegen::test
