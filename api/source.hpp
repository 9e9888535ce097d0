// The source of the kernels of a problem or of an expression, to be read.
#pragma once

#include <topograd/api/expression.hpp>
#include <topograd/codegen/kernel.hpp>
#include <topograd/frontend/problem.hpp>

#include <string>
#include <vector>

namespace topograd {

struct SourceOptions {
  /// residual, cost, gradient, jacobian, jtjp, blocks, jvp, vjp, hvp or hessian. Energies have
  /// cost, gradient, hvp and hessian.
  std::string kernel = "gradient";
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  codegen::Precision precision = codegen::Precision::f64;
  /// ir, dot, glsl, spirv (disassembly), hlsl, msl, essl or c (c_source.hpp, double precision)
  std::string format = "glsl";
};

/// The kernels that evaluate `options.kernel` for all of a problem's topologies, one after the
/// other, in the order they run. Needs no device; the formats after glsl need a build with Vulkan.
///
/// Throws Error{EmptyProblem}, Error{InvalidArgument} for an unknown name, Error{Unsupported} where
/// a dialect cannot say the kernel (names both).
std::string source(const Problem& problem, const SourceOptions& options = {});

/// One kernel of those.
struct NamedSource {
  std::string name;   ///< as the device's objects and profilers have it
  std::string title;  ///< what it evaluates, and of which topology
  std::string text;
};
/// The same, a kernel an element. Throws what source() throws, and Error{InvalidArgument} for the
/// format c, which is one text.
std::vector<NamedSource> sources(const Problem& problem, const SourceOptions& options = {});

/// The same for one residual block (parse() gives one) that stands alone: each parameter is an
/// array of its own and has an index column of its own. Names appear in GLSL in lower case, with an
/// underscore after those that could be keywords.
///
/// Throws Error{NoParameters} if the program has no parameters, and what source() above throws.
std::string source(const ir::Program& residual, const ExpressionNames& names,
                   const SourceOptions& options = {});

/// A table of the topologies: hash, name, instances, outputs, parameters, operations of residual,
/// gradient and Jacobian of one instance, bytes that the f64 residual kernel moves for it (with an
/// index for each scalar, on a software device, on others), and how the rule would sum gradients on
/// a device.
std::string topology_table(const Problem& problem);

}  // namespace topograd
