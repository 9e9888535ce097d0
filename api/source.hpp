// The source of the kernels of a problem or of an expression, to be read.
#pragma once

#include "../codegen/kernel.hpp"
#include "../frontend/problem.hpp"
#include "../runtime/hybrid/task.hpp"
#include "../runtime/kernel_listing.hpp"
#include "expression/expression.hpp"

#include <cstdint>
#include <span>
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
  /// Of a problem: the topology of this name, or whose hash begins so (eight digits or more),
  /// alone.
  std::string topology;
};

/// The kernels that evaluate `options.kernel` for all of a problem's topologies, one after the
/// other, in the order they run. Needs no device; the formats after glsl need a build with Vulkan.
///
/// Throws Error{EmptyProblem}, Error{InvalidArgument} for an unknown name (of topologies: says
/// which there are), Error{Unsupported} where a dialect cannot say the kernel (names both).
std::string source(const Problem& problem, const SourceOptions& options = {});

/// One kernel of those.
struct NamedSource {
  std::string name;   ///< as the device's objects and profilers have it
  std::string title;  ///< what it evaluates, and of which topology
  std::string text;
};
/// The same, a kernel (of the format c, a topology) an element. Throws what source() throws.
std::vector<NamedSource> sources(const Problem& problem, const SourceOptions& options = {});

/// The same for one residual block (parse() gives one) that stands alone: each parameter is an
/// array of its own and has an index column of its own. Names appear in GLSL in lower case, with an
/// underscore after those that could be keywords.
///
/// Throws Error{NoParameters} if the program has no parameters, and what source() above throws.
std::string source(const ir::Program& residual, const ExpressionNames& names,
                   const SourceOptions& options = {});

/// The same, a kernel an element.
std::vector<NamedSource> sources(const ir::Program& residual, const ExpressionNames& names,
                                 const SourceOptions& options = {});

/// Kernels that a device was asked for (runtime::ListKernels), in a format: glsl, spirv, hlsl, msl
/// or essl. Throws as source(), and Error{InvalidArgument} for another format.
std::vector<NamedSource> sources(std::span<const runtime::ListedKernel> kernels,
                                 const std::string& format);

/// The text of the kernel that a task runs on a device, for all of its items; empty if it has none.
std::string source(runtime::hybrid::Task& task, std::uint64_t items);

/// A table of the topologies: hash, name, instances, outputs, parameters, operations of residual,
/// gradient and Jacobian of one instance, bytes that the f64 residual kernel moves for it (with an
/// index for each scalar, on a software device, on others), and how the rule would sum gradients on
/// a device.
std::string topology_table(const Problem& problem);

}  // namespace topograd
