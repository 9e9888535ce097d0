// Which linear solver a problem gets.
#pragma once

#include "../../runtime/model/model.hpp"
#include "elimination.hpp"
#include "factorization.hpp"
#include "step_solver.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace topograd {

struct LinearChoice {
  std::unique_ptr<StepSolver> solver;
  std::string why;  ///< one line for the report
};

/// Unknowns up to which `automatic` factorises on the CPU without asking what the factor costs.
inline constexpr std::uint64_t kLargestFactorised = 2000;
/// Beyond them, where the library can tell the cost: entries (8 bytes each) and operations of a
/// factor, some seconds of work. Conjugate gradients need the better part of their 500 iterations
/// on a stiff mesh, and still stop far from the solution.
inline constexpr double kLargestFactor = 2.5e8;
inline constexpr double kDearestFactor = 3e11;
/// Of meshes, products with JᵀJ that take as many operations as the factor that is preferred to
/// them: a step takes some twenty, at a few operations for each number read, where a factor runs in
/// the caches.
inline constexpr double kProductsOfStep = 60;
/// Operations of a part of a factor that are not worth a thought.
inline constexpr double kCheapPart = 1e8;
/// Unknowns beyond which no factor is that small: the pattern is not even looked for.
inline constexpr std::uint64_t kLargestAnalysed = 1'000'000;

/// Problems whose Jacobian `automatic` reads back from a device: fits of a few unknowns, which are
/// often too badly conditioned for conjugate gradients (NIST's MGH17 fails with them).
inline constexpr std::uint64_t kLargestReadBack = 32;         ///< unknowns
inline constexpr std::uint64_t kLargestJacobian = 1'000'000;  ///< rows × unknowns, 8 MB
/// Instances × slots among which `automatic` looks for blocks to eliminate on a device: some tenths
/// of a second.
inline constexpr std::uint64_t kMostSlotsSearched = 8'000'000;
/// Unknowns from which on it does: fewer are few iterations either way.
inline constexpr std::uint64_t kLeastEliminated = 1000;

/// Of schur on the CPU: set where conjugate gradients are asked for by their preconditioner.
std::optional<SchurIteration> schur_iteration(const SolverOptions& options);

/// What Newton's method solves by: a factor of projected Hessians, or products and conjugate
/// gradients, which are `automatic` for meshes of more than kLargestFactorised unknowns. Damped
/// steps and local energies make few iterations there, and a factor fills up.
struct NewtonChoice {
  LinearSolver kind = LinearSolver::cholesky;
  std::string why;  ///< one line for the report
};
NewtonChoice choose_newton_solver(const runtime::Model& model, const SolverOptions& options);

/// `automatic`: on a device, because nothing has to leave it, schur where at least as many unknowns
/// are eliminated as remain and what remains is no mesh (Elimination::remains_wide), else pcg, but
/// cholesky for the smallest problems, and dense QR once a factor of these fails; on the CPU
/// cholesky up to kLargestFactorised unknowns and where factors are cheap, else pcg, which it is
/// too where one residual reads so many unknowns that their part of a factor is dear. A
/// preconditioner that is asked for is pcg's; with a hint it is schur.
///
///   engine   that will take the steps; a device is told what to eliminate
///   backend  of the engine that the session is for
///   hint     what schur eliminates
///
/// Throws Error{Unsupported} if a forced cholesky cannot hold the problem, and what
/// find_elimination() throws.
LinearChoice choose_linear_solver(const runtime::Model& model, const SolverOptions& options,
                                  runtime::Backend backend, runtime::Engine& engine,
                                  const EliminationHint& hint = {});

}  // namespace topograd
