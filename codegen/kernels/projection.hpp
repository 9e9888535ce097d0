// The kernel that makes stored symmetric matrices positive semidefinite.
#pragma once

#include "../kernel.hpp"

#include <cstdint>
#include <vector>

namespace topograd::codegen {

/// Removes the negative eigenvalues of `count` symmetric matrices, one per invocation: H ← H −
/// Σ_{λ<0} λ v vᵀ. A matrix keeps its bits if it has no negative eigenvalue or an entry that is not
/// finite.
///
/// Eigenvalues are found by cyclic Jacobi rotations, kProjectionSweeps times over all pairs, in two
/// scratch buffers. The kernel runs once for each of projection_dispatches(), with a barrier in
/// between; n is a push constant, so that one kernel serves every width.
///
///   blocks        entry k of the packed upper triangle of matrix i at k * count + i, n(n+1)/2
///                 entries, in and out
///   rotated       scratch, of the size of `blocks`
///   eigenvectors  scratch, n² * count
///
/// Source: Golub & Van Loan, Matrix Computations, 4th ed., §8.5.
struct ProjectionRequest {
  Precision precision = Precision::f64;
  std::uint32_t workgroup_size = 128;  ///< a power of two, at most 1024
  bool float_controls_f32 = false, float_controls_f64 = false;
};

/// Sweeps reduce the off-diagonal part quadratically from about the fourth on; matrices of 60 rows
/// need eight in double precision. A sweep over a diagonal matrix only reads it.
inline constexpr std::uint32_t kProjectionSweeps = 12;

enum class ProjectionPhase : std::uint32_t {
  prepare,  ///< copies matrices to scratch
  rotate,   ///< a sweep, by rows
  subtract  ///< removes the part of negative eigenvalues, some of them at a time
};

/// Push constants of the kernel.
struct ProjectionConstants {
  std::uint32_t count = 0;   ///< end of the matrices of this dispatch
  std::uint32_t first = 0;   ///< matrix of invocation 0
  std::uint32_t stride = 0;  ///< matrices in the buffers
  std::uint32_t width = 1;   ///< n, rows of a matrix
  std::uint32_t phase = 0;   ///< ProjectionPhase
  std::uint32_t row_first = 0, row_end = 0;
};

/// The dispatches of the kernel, in order, over the matrices of `over`, whose phase and rows are
/// unused.
std::vector<ProjectionConstants> projection_dispatches(ProjectionConstants over);

/// Writes the shader. Throws Error{InvalidArgument} for a workgroup size out of range.
KernelSource generate(const ProjectionRequest& request);

}  // namespace topograd::codegen
