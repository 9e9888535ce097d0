// Which linear solver a problem gets.
#pragma once

#include <topograd/runtime/model.hpp>
#include <topograd/solver/linear/step_solver.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace topograd {

struct LinearChoice {
  std::unique_ptr<StepSolver> solver;
  std::string why;  ///< one line for the report
};

/// Unknowns up to which `automatic` factorises on the CPU.
inline constexpr std::uint64_t kLargestFactorised = 2000;

/// Problems whose Jacobian `automatic` reads back from a device: fits of a few unknowns, which are
/// often too badly conditioned for conjugate gradients (NIST's MGH17 fails with them).
inline constexpr std::uint64_t kLargestReadBack = 32;         ///< unknowns
inline constexpr std::uint64_t kLargestJacobian = 1'000'000;  ///< rows × unknowns, 8 MB

/// `automatic`: pcg on a device, because nothing has to leave it, but cholesky for the smallest
/// problems; on the CPU cholesky up to kLargestFactorised unknowns, else pcg.
///
///   backend  of the engine: "cpu" or "vulkan"
///
/// Throws Error{Unsupported} if a forced cholesky cannot hold the problem.
LinearChoice choose_linear_solver(const runtime::Model& model, const SolverOptions& options,
                                  std::string_view backend);

}  // namespace topograd
