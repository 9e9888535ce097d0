// Readable source of the kernels of a problem or of an expression.
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
  /// residual, cost, gradient, jacobian, jtjp, blocks, jvp, vjp, hvp or hessian. Energies have only
  /// cost, gradient, hvp and hessian.
  std::string kernel = "gradient";
  codegen::Accumulation accumulation = codegen::Accumulation::gather_recompute;
  codegen::Precision precision = codegen::Precision::f64;
  /// ir, dot, glsl, spirv (disassembly), hlsl, msl, essl, wgsl, c or js (c_source.hpp, double
  /// precision)
  std::string format = "glsl";
  /// For a problem: prints only the topology with this name, or whose hash begins with this text
  /// (at least eight digits).
  std::string topology = {};
};

/// The kernels that evaluate `options.kernel` for all of a problem's topologies, in the order in
/// which they run. Needs no device; the formats after glsl need a build with Vulkan.
///
/// Throws Error{EmptyProblem}, Error{InvalidArgument} for an unknown name (lists the existing
/// topologies), Error{Unsupported} if a dialect cannot express the kernel (names both).
std::string source(const Problem& problem, const SourceOptions& options = {});

/// One of these kernels.
struct NamedSource {
  std::string name;   ///< name shown by the driver and by profilers
  std::string title;  ///< its purpose and topology
  std::string text;
};
/// The same, one element per kernel (for the formats c and js, per topology). Throws what source()
/// throws.
std::vector<NamedSource> sources(const Problem& problem, const SourceOptions& options = {});

/// The same for a single residual block (from parse()): each parameter is an array of its own with
/// an index column of its own. Names appear in GLSL in lower case, with an underscore appended to
/// possible keywords.
///
/// Throws Error{NoParameters} if the program has no parameters, and what source() above throws.
std::string source(const ir::Program& residual, const ExpressionNames& names,
                   const SourceOptions& options = {});

/// The same, with one element per kernel.
std::vector<NamedSource> sources(const ir::Program& residual, const ExpressionNames& names,
                                 const SourceOptions& options = {});

/// Kernels requested from a device (runtime::ListKernels), in a format: glsl, spirv, hlsl, msl,
/// wgsl or essl. Throws what source() throws, and Error{InvalidArgument} for another format.
std::vector<NamedSource> sources(std::span<const runtime::ListedKernel> kernels,
                                 const std::string& format);

/// The source of the kernel that a task runs on a device for all of its items; may be empty.
std::string source(runtime::hybrid::Task& task, std::uint64_t items);

/// A table of the topologies: hash, name, instances, outputs, parameters; operations of residual,
/// gradient and Jacobian of one instance; bytes that the f64 residual kernel moves per instance
/// (with an index for each scalar, on software and on other devices); and the accumulation strategy
/// that the rule would choose for gradients on a device.
std::string topology_table(const Problem& problem);

}  // namespace topograd
