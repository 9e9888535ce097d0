// Golden files of kernels as WGSL, in f32 and with float64 by integers.
#include "../../codegen/kernel.hpp"
#include "../../codegen/spirv/cross.hpp"
#include "../../codegen/spirv/edit_modules.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../codegen/vector/source.hpp"
#include "../../ir/hash.hpp"
#include "../support/golden.hpp"
#include "../support/paths.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_requests.hpp"

namespace topograd::codegen {
namespace {

struct Golden {
  std::string file;
  KernelSource source;
};

std::vector<Golden> goldens() {
  const VectorKernelRequest direction = {
      .op = VectorOp::cg_direction, .vectors = Precision::f32, .scalars = Precision::f32};
  return {
      {"springs_residual_f32", generate(test::springs_residual(Precision::f32))},
      {"springs_cost_gradient_store_f32",
       generate(test::springs_cost_gradient_store(Precision::f32))},
      {"springs_jtjp_gather_f32", generate(test::springs_jtjp_gather(Precision::f32))},
      {"affine_residual_f32", generate(test::affine_residual(Precision::f32))},
      {"vector_cg_direction_f32", generate(direction)},
      {"springs_residual_f64", generate(test::springs_residual(Precision::f64))},
      {"springs_gradient_gather_f64", generate(test::springs_gradient_gather(Precision::f64))},
      {"vector_cg_update_f64_w3", generate({.op = VectorOp::cg_update, .width = 3})},
  };
}

std::string hash_of(const void* bytes, std::size_t size) {
  ir::Hash128 hash;
  ir::add_bytes(hash, bytes, size);
  return ir::to_string(hash);
}

/// The first lines of a golden file: the GLSL, and the module that it is the text of.
std::string glsl_line(const KernelSource& source) {
  return "// of the GLSL " + hash_of(source.glsl.data(), source.glsl.size()) + "\n";
}
std::string module_line(std::span<const std::uint32_t> module) {
  return "// and the SPIR-V module " + hash_of(module.data(), module.size_bytes()) +
         ", without doubles\n";
}

TEST(Wgsl, GoldenFiles) {
  const bool updates = std::getenv("TOPOGRAD_UPDATE_GOLDEN") != nullptr;
  std::string others;
  for (const auto& [name, source] : goldens()) {
    const auto words = compile({.name = source.name, .glsl = source.glsl, .includes = {}});
    const std::string lines = glsl_line(source) + module_line(emulate_float64(words));
    const std::string file = "tests/codegen/golden/" + name + ".wgsl";
    const auto path = topograd::test::source_dir() / file;
    // Another version of the compiler makes other modules of the same GLSL, which are no fault of
    // ours.
    const std::string stored =
        updates || !std::filesystem::exists(path) ? "" : topograd::test::read_file(path);
    if (stored.starts_with(glsl_line(source)) && !stored.starts_with(lines)) {
      others += " " + name;
      continue;
    }
    topograd::test::expect_golden(file, lines + wgsl(words));
  }
  if (!others.empty()) GTEST_SKIP() << "the compiler of GLSL makes other modules of" << others;
}

}  // namespace
}  // namespace topograd::codegen
