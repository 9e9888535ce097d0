// Problems as static files that solve themselves in a browser or in Node.
#pragma once

#include "../frontend/problem.hpp"
#include "../solver/options.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

struct WebExportOptions {
  std::string name = "problem";  ///< Problem.name of the module
  /// The method and defaults of solves in the page: limits, tolerances, radii, damping and linear
  /// solver. Methods are levenberg_marquardt and gauss_newton; for problems with energies newton
  /// and lbfgs, of which the second needs much smaller files.
  SolverOptions solver = {};
  /// Triangles of a mesh whose vertices are the blocks of the problem's first array.
  std::vector<std::array<std::uint32_t, 3>> faces = {};
  /// Also writes index.html, which shows the problem and solves it: a mesh, points with lines
  /// between those that share residuals, a curve with its data, or numbers.
  bool page = false;
  /// Also writes kernels.wgsl with residuals, their derivatives and manifolds as kernels of f32,
  /// and the code for whole steps on WebGPU with them (`precision: "f32"` of the module's load()).
  bool f32 = false;
};

/// The files that export_web() has written.
struct WebExport {
  std::vector<std::string> files;  ///< names in the folder
  std::uint64_t bytes = 0;         ///< of all files
};

/// Writes a problem as static files: problem.bin (unknowns, indices, data, bounds, and an order of
/// elimination), kernels.js (its residuals or energies, their derivatives and manifolds in
/// JavaScript), and the npm package @topograd/web, whose module topograd.js solves it in pages and
/// in Node. The start is the present point. Files of these names in the folder are replaced.
///
///   folder  is made if it is not there
///
/// Throws Error{EmptyProblem}, and Error{Unsupported} that names what cannot be exported:
/// constraints, f32 for energies, residuals of opaque code or with branches on a Value, manifolds
/// without a traced form, other methods, and options of steps that the module does not have; and in
/// a build without TypeScript's compiler, which has no module. Throws Error{InvalidArgument} for
/// options out of range, bounds without a number between them and starts outside of bounds, and
/// Error{NonFinite} for starts whose cost or gradient is not finite, as a solve does. Throws
/// Error{File} if a file cannot be written. Cost: as of the first evaluation,
/// and an ordering of the blocks.
WebExport export_web(const Problem& problem, const WebExportOptions& options,
                     const std::string& folder);

}  // namespace topograd
