// The source of a problem's kernels, to be read.
#pragma once

#include <topograd/codegen/kernel.hpp>
#include <topograd/frontend/problem.hpp>

#include <string>

namespace topograd {

struct SourceOptions {
  std::string kernel =
      "gradient";  ///< residual, cost, gradient, jacobian, jtjp, blocks, jvp or vjp
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  codegen::Precision precision = codegen::Precision::f64;
  std::string format = "glsl";  ///< ir, dot, glsl, spirv (disassembly), hlsl, msl or essl
};

/// The kernels that evaluate `options.kernel` for all of a problem's topologies, one after the
/// other, in the order they run. Needs no device; the formats after glsl need a build with Vulkan.
///
/// Throws Error{EmptyProblem}, Error{InvalidArgument} for an unknown name, Error{Unsupported} where
/// a dialect cannot say the kernel (names both).
std::string source(const Problem& problem, const SourceOptions& options = {});

/// A table of the topologies: hash, name, instances, outputs, parameters, operations of residual,
/// gradient and Jacobian of one instance, bytes that the f64 residual kernel moves for it.
std::string topology_table(const Problem& problem);

}  // namespace topograd
