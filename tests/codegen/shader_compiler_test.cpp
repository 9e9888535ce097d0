// In-process compilation: results, includes, error texts, threads, and `precise` after
// optimisation.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <spirv_cross/spirv.hpp>
#include <thread>
#include "../../codegen/math/library.hpp"
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"

#include "test_shaders.hpp"

namespace topograd::codegen::test {
namespace {

std::string error_text(const ShaderSource& source) {
  try {
    compile(source);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::ShaderCompile);
    return error.what();
  }
  return "(compiled)";
}

TEST(ShaderCompiler, SameSourceGivesSameWords) {
  const ShaderSource source{.name = "scale", .glsl = kScaleShader, .includes = {}};
  const auto words = compile(source);
  EXPECT_TRUE(looks_like_spirv(words));
  EXPECT_EQ(words, compile(source));
  EXPECT_LT(words.size(), 4000u);
  EXPECT_EQ(words[1], 0x00010500u) << "SPIR-V 1.5 belongs to Vulkan 1.2";
}

TEST(ShaderCompiler, ResolvesIncludesFromTheMap) {
  const ShaderSource source{
      .name = "outer",
      .glsl =
          "#version 450\n#extension GL_GOOGLE_include_directive : require\n"
          "#include \"one\"\nlayout(binding = 0) buffer B { float b[]; };\n"
          "void main() { b[0] = one(); }\n",
      .includes = {{"one", "#include \"two\"\nfloat one() { return two(); }\n"},
                   {"two", "float two() { return 2.0; }\n"}}};
  EXPECT_TRUE(looks_like_spirv(compile(source)));
}

TEST(ShaderCompiler, ErrorsNameShaderLineAndText) {
  struct Row {
    ShaderSource source;
    std::string expected;
  };
  const Row rows[] = {
      {{"typo", "#version 450\nvoid main() {\n  float x = y;\n}\n", {}},
       "compile: shader \"typo\" was refused\n"
       "  typo:3: error: 'y' : undeclared identifier\n    3 |   float x = y;"},
      {{"lost",
        "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include \"gone\"\n"
        "void main() {}\n",
        {}},
       "compile: shader \"lost\" was refused\n"
       "  lost:3: error: '#include' : no include named \"gone\" (asked for by lost)"},
      {{"inner",
        "#version 450\n#extension GL_GOOGLE_include_directive : require\n#include \"part\"\n"
        "void main() {}\n",
        {{"part", "int f() {\n  return z;\n}\n"}}},
       "compile: shader \"inner\" was refused\n"
       "  part:2: error: 'z' : undeclared identifier\n    2 |   return z;"},
      {{"empty", "", {}}, "compile: shader \"empty\" was refused: no #version line"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(error_text(row.source).substr(0, row.expected.size()), row.expected);
  }
}

TEST(ShaderCompiler, ShowsOnlyTheFirstComplaints) {
  std::string glsl = "#version 450\nvoid main() {\n";
  for (int i = 0; i < 30; ++i) glsl += "  q" + std::to_string(i) + " = 1;\n";
  const std::string text = error_text({"many", glsl + "}\n", {}});
  EXPECT_LT(std::ranges::count(text, '\n'), 20);
}

TEST(ShaderCompiler, CompilesOnManyThreadsAtOnce) {
  const auto expected = compile({.name = "scale", .glsl = kScaleShader, .includes = {}});
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (std::size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        good[t] += compile({.name = "scale", .glsl = kScaleShader, .includes = {}}) == expected;
        try {
          compile({.name = "bad", .glsl = "#version 450\nvoid main() { x; }\n", .includes = {}});
        } catch (const Error&) {
          ++good[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 10));
}

TEST(ShaderCompiler, DisassemblesWithNames) {
  const std::string text =
      disassemble(compile({.name = "scale", .glsl = kScaleShader, .includes = {}}));
  for (const char* part : {"OpCapability Shader", "%main", "OpDecorate", "NoContraction"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const std::vector<std::uint32_t> nonsense = {1, 2, 3};
  EXPECT_THROW(disassemble(nonsense), Error);
}

struct Arithmetic {
  int total = 0, free = 0;  // free: the driver may contract it
  std::string names;        // opcodes of the free ones
};

Arithmetic count_arithmetic(std::span<const std::uint32_t> module) {
  std::set<std::uint32_t> fixed;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t) {
    if (op.opcode == spv::OpDecorate && op.words[2] == spv::DecorationNoContraction) {
      fixed.insert(op.words[1]);
    }
  });
  Arithmetic count;
  for_each_instruction(module, [&](const SpirvInstruction& op, std::size_t) {
    switch (op.opcode) {
      case spv::OpFAdd:
      case spv::OpFSub:
      case spv::OpFMul:
      case spv::OpFDiv:
        ++count.total;
        if (!fixed.contains(op.words[2])) {
          ++count.free;
          count.names += std::to_string(op.opcode) + " ";
        }
        break;
      default: break;
    }
  });
  return count;
}

std::string call_everything(Precision precision) {
  const std::string type = precision == Precision::f64 ? "double" : "float";
  std::string text = "#version 450\n" + math::library(math::functions(), precision) +
                     "layout(binding = 0) buffer B { " + type +
                     " b[]; };\nvoid main() {\n  uint i = gl_GlobalInvocationID.x;\n";
  int k = 0;
  for (std::string_view f : math::functions()) {
    if (f.starts_with("is_")) continue;
    const std::string at = std::to_string(++k) + "u]";
    const bool two =
        f == "pow" || f == "atan2" || f == "hypot" || f == "min" || f == "max" || f == "mod";
    text += "  b[i + " + at + " = " + math::spelling(f, precision) +
            (two ? "(b[i], b[i + " + at + ");\n" : "(b[i + " + at + ");\n");
  }
  return text + "}\n";
}

TEST(ShaderCompiler, EveryOperationOfTheLibraryIsPrecise) {
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    const Arithmetic count = count_arithmetic(
        compile({.name = "all", .glsl = call_everything(precision), .includes = {}}));
    EXPECT_GT(count.total, 250);
    EXPECT_EQ(count.free, 0) << count.names;
  }
}

// x - x, x * 0 and (a + c) - a must reach the device unchanged.
TEST(ShaderCompiler, FoldsNothingPrecise) {
  const std::string glsl = R"(#version 450
layout(binding = 0) buffer B { float b[]; };
void main() {
  precise float zero = b[0] * 0.0;
  precise float none = b[1] - b[1];
  precise float same = b[2] + 0.0;
  precise float back = (b[3] + 1.0) - b[3];
  precise float one = b[4] / b[4];
  b[5] = zero; b[6] = none; b[7] = same; b[8] = back; b[9] = one;
}
)";
  const Arithmetic count =
      count_arithmetic(compile({.name = "fold", .glsl = glsl, .includes = {}}));
  EXPECT_EQ(count.total, 6);
  EXPECT_EQ(count.free, 0);
}

}  // namespace
}  // namespace topograd::codegen::test
