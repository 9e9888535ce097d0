// Float-controls modes in a module: their position, and that the module stays valid.
#include <gtest/gtest.h>

#include <spirv-tools/libspirv.hpp>
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"

namespace topograd::codegen::test {
namespace {

std::vector<std::uint32_t> shader(const std::string& type) {
  return compile(
      {.name = "product",
       .glsl = "#version 450\nlayout(local_size_x = 8) in;\nlayout(binding = 0) buffer B { " +
               type + " b[]; };\nvoid main() { b[0] = b[1] * b[2]; }\n",
       .includes = {}});
}

std::string problems(const std::vector<std::uint32_t>& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string text;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { text += message; });
  return tools.Validate(words) ? "" : "invalid: " + text;
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

constexpr FloatWidthControls kKeep = {.signed_zero_inf_nan_preserve = true,
                                      .denorm_preserve = true};

TEST(FloatControls, AddsModesOfTheWidthsInUse) {
  struct Row {
    std::string type;
    FloatControls controls;
    std::vector<std::string> present, absent;
  };
  const Row rows[] = {
      {"float",
       {.f32 = kKeep, .f64 = kKeep},
       {"OpCapability SignedZeroInfNanPreserve", "OpCapability DenormPreserve",
        "OpExecutionMode %main SignedZeroInfNanPreserve 32",
        "OpExecutionMode %main DenormPreserve 32"},
       {"Preserve 64", "OpExtension"}},
      {"double",
       {.f32 = kKeep, .f64 = kKeep},
       {"OpExecutionMode %main SignedZeroInfNanPreserve 64",
        "OpExecutionMode %main DenormPreserve 64"},
       {"Preserve 32"}},
      {"float",
       {.f32 = {.denorm_flush_to_zero = true, .rounding_to_nearest_even = true}},
       {"OpExecutionMode %main DenormFlushToZero 32", "OpExecutionMode %main RoundingModeRTE 32"},
       {"Preserve"}},
      {"double", {.f32 = kKeep}, {"OpExecutionMode %main LocalSize 8 1 1"}, {"Preserve"}},
      {"float", {}, {}, {"Preserve", "Flush", "Rounding"}},
  };
  for (const Row& row : rows) {
    const auto words = shader(row.type);
    const auto with = add_float_controls(words, row.controls);
    const std::string text = disassemble(with);
    for (const auto& part : row.present)
      EXPECT_EQ(occurrences(text, part), 1) << part << "\n" << text;
    for (const auto& part : row.absent)
      EXPECT_EQ(occurrences(text, part), 0) << part << "\n" << text;
    EXPECT_EQ(problems(with), "");
    EXPECT_EQ(add_float_controls(with, row.controls), with) << "adding twice equals adding once";
    EXPECT_EQ(reflect(with).workgroup_size[0], 8u);
  }
}

TEST(FloatControls, OldModulesGetTheExtension) {
  auto words = shader("float");
  words[1] = 0x00010300u;
  const std::string text = disassemble(add_float_controls(words, {.f32 = kKeep}));
  EXPECT_EQ(occurrences(text, "OpExtension \"SPV_KHR_float_controls\""), 1) << text;
}

TEST(FloatControls, RefusesContradictionsAndNonsense) {
  const FloatControls both = {.f32 = {.denorm_preserve = true, .denorm_flush_to_zero = true}};
  EXPECT_THROW(add_float_controls(shader("float"), both), Error);
  const std::vector<std::uint32_t> nonsense = {1, 2, 3, 4, 5, 6};
  EXPECT_THROW(add_float_controls(nonsense, {}), Error);
  auto cut = shader("float");
  cut.resize(cut.size() - 3);  // inside the last store
  EXPECT_THROW(add_float_controls(cut, {}), Error);
}

}  // namespace
}  // namespace topograd::codegen::test
