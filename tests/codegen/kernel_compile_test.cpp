// Every shader of the emitter compiles, and its reflected layout is the expected one.
#include "../../codegen/kernel.hpp"
#include "../../codegen/spirv/reflect.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../codegen/vector/kernels.hpp"
#include "../../codegen/vector/source.hpp"

#include <bit>

#include <gtest/gtest.h>

#include <shaderc/shaderc.hpp>

#include "kernel_requests.hpp"

namespace topograd::codegen {
namespace {

constexpr Precision kPrecisions[] = {Precision::f32, Precision::f64};

// The compiler's messages about a shader, warnings included.
std::string complaints(const KernelSource& source) {
  static const shaderc::Compiler kCompiler;
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  return kCompiler.CompileGlslToSpv(source.glsl, shaderc_compute_shader, "kernel", options)
      .GetErrorMessage();
}

void expect_compiles(const KernelSource& source) {
  SCOPED_TRACE(source.glsl);
  ModuleLayout layout;
  ASSERT_NO_THROW(layout =
                      reflect(compile({.name = source.name, .glsl = source.glsl, .includes = {}})));
  EXPECT_EQ(complaints(source), "");
  EXPECT_NO_THROW(check(layout, expected_layout(source), source.name));
  EXPECT_EQ(layout.uses_float64(), source.needs_float64);
  EXPECT_EQ(layout.uses_int64_atomics(), source.needs_int64_atomics);
  EXPECT_EQ(layout.uses_float32_atomic_add() || layout.uses_float64_atomic_add(),
            source.needs_atomic_float);
  EXPECT_EQ(layout.uses_subgroups(), source.needs_subgroups);
}

TEST(KernelCompile, WarningsWouldBeSeen) {
  KernelSource source;
  source.glsl = "#version 450\n#extension GL_NO_such_extension : enable\nvoid main() {}\n";
  EXPECT_NE(complaints(source), "");
}

TEST(KernelCompile, EveryOp) {
  for (const Precision precision : kPrecisions) {
    for (const ir::OpInfo& info : ir::kOps) {
      if (info.op == ir::Op::Literal) continue;
      KernelRequest request;
      request.name = "single_" + std::string(info.name);
      request.precision = precision;
      request.program = test::single_op(info.op);
      request.layout = general_layout(request.program.leaves);
      expect_compiles(generate(request));
    }
  }
}

TEST(KernelCompile, EveryForm) {
  for (const Precision precision : kPrecisions) {
    for (const std::uint32_t size : {1u, 2u, 64u, 1024u}) {
      KernelRequest requests[] = {
          test::springs_residual(precision),
          test::springs_cost(precision),
          test::springs_gradient_scatter(precision, Accumulation::atomic_cas),
          test::springs_gradient_scatter(precision, Accumulation::atomic_float),
          test::springs_gradient_gather(precision),
          test::springs_jtjp_gather(precision),
          test::springs_sum_terms(precision),
      };
      for (KernelRequest request :
           {test::springs_values_gather(precision), test::springs_cost_gradient_store(precision)}) {
        request.workgroup_size = size;
        expect_compiles(generate(request));
        request.workgroup_items = request.form == Form::gather;
        request.use_subgroups = request.wide_sums = true;
        expect_compiles(generate(request));
      }
      for (KernelRequest& request : requests) {
        request.workgroup_size = size;
        expect_compiles(generate(request));
        request.predicated = request.use_subgroups = request.wide_sums = true;
        expect_compiles(generate(request));
      }
    }
  }
}

/// Invocations that share a row are a power of two.
std::uint32_t width_for(VectorOp op, std::uint32_t width) {
  return row(op).width == Width::lanes ? std::bit_ceil(width) : width;
}

TEST(KernelCompile, EveryVectorOp) {
  for (std::uint32_t op = 0; op < kVectorOpCount; ++op) {
    for (const auto& [vectors, scalars] :
         {std::pair(Precision::f32, Precision::f32), std::pair(Precision::f32, Precision::f64),
          std::pair(Precision::f64, Precision::f64)}) {
      for (const std::uint32_t width : {1u, 3u, 8u}) {
        const auto named = static_cast<VectorOp>(op);
        VectorKernelRequest request{.op = named,
                                    .vectors = vectors,
                                    .scalars = scalars,
                                    .width = width_for(named, width),
                                    .predicated = width == 3};
        expect_compiles(generate(request));
      }
    }
  }
}

}  // namespace
}  // namespace topograd::codegen
