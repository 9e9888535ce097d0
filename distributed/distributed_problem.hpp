// Problems that several processes solve together.
#pragma once

#include "communicator.hpp"
#include "distributed_engine.hpp"

#include "../frontend/problem.hpp"
#include "../ir/language.hpp"
#include "../solver/options.hpp"
#include "../solver/summary.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd {

/// The residuals that each rank adds to its problem.
enum class RankResiduals : std::uint8_t {
  all,   ///< all of them, alike on every rank
  share  ///< some of them, and no two ranks the same one
};

/// How the processes work together.
struct DistributedOptions {
  /// With shares, no rank ever holds the residuals of the whole problem. Every rank adds all
  /// parameters, with their start, bounds and fixed flags. Rows and topologies are ordered by rank,
  /// then as they were added, so the result has the bits of a rank that adds all residuals in this
  /// order. Steps are those of pcg, or of lbfgs.
  RankResiduals residuals = RankResiduals::all;
  distributed::PartitionMethod partition = distributed::PartitionMethod::scotch;
  /// Solves linear systems of pcg by PETSc's KSP, with PETSc's options. Its sums are PETSc's, so
  /// results depend on the number of ranks by rounding.
  bool petsc_krylov = false;
};

/// One outer step on one rank. The first one, step 0, has what precedes the steps.
struct RankStep {
  int step = 0;
  double start_seconds = 0;   ///< since the ranks began the solve together
  double seconds = 0;         ///< until the ranks have agreed on its end
  double waited_seconds = 0;  ///< of these, in exchanges
};

/// How a solve was divided, by rank; the same on all ranks.
struct DistributedReport {
  std::vector<distributed::RankReport> ranks;
  std::vector<std::vector<RankStep>> steps;  ///< by rank
  /// Most residuals of a rank over the mean, 1 at best.
  double imbalance = 1;
};
/// A table with a row for each rank, for people.
std::string text(const DistributedReport& report);

/// Minimises a problem that every rank has built alike, or of which every rank has added a share of
/// the residuals, as topograd::solve() does, with the same result on all ranks: the bits do not
/// depend on the number of ranks, and on CPUs are those of topograd::solve() with
/// SolverOptions::deterministic.
///
/// Each rank evaluates the residuals of its blocks (distributed_engine.hpp), with Backend::vulkan
/// on a device (rank_part.hpp). Conjugate gradients exchange halos alone; other linear solvers,
/// steps on manifolds, and residuals of opaque code gather what they read, and every rank makes the
/// same step. Under Preconditioner::automatic it is block_jacobi. The callback is called on all
/// ranks, and rank 0's answer counts. Collective.
///
///   report  null, or where to describe the division
///
/// Throws what topograd::solve() throws, on all ranks alike; Error{InvalidArgument} if problem,
/// options or versions of the library differ between ranks; Error{Unsupported} for two_level, on
/// devices for mixed precision, PETSc's options, and manifolds with shares, and with shares for
/// other steps, some manifolds, constraints, opaque residuals, checks of domains and cross-checks.
/// An error on one rank alone ends all processes (Communicator::fail_unless_all()), but for
/// failures of its device: then it goes on on its CPU.
///
/// Rank 0 reads checkpoints, and all ranks write them together. They are those of
/// topograd::solve(), and any number of ranks continues from them.
Summary solve(const distributed::Communicator& ranks, Problem& problem,
              const SolverOptions& options = {}, const DistributedOptions& distribution = {},
              DistributedReport* report = nullptr);

/// A problem of the ranks of a communicator, by the code of an ordinary Problem. Every rank adds
/// the same parameters in the same order, and all residuals likewise or a share of them.
///
///   problem.distribution.residuals = RankResiduals::share;
///   const Slice mine = problem.slice(edges.size());
///   for (std::uint64_t k = mine.first; k < mine.end; ++k) problem.add_residual(...);
class DistributedProblem : public Problem {
 public:
  /// Throws Error{InvalidArgument} if MPI does not run (distributed::Session).
  explicit DistributedProblem(MPI_Comm comm);

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  const distributed::Communicator& ranks() const { return *ranks_; }
  /// This rank's slice of `count` things: consecutive, in the order of the ranks.
  Slice slice(std::uint64_t count) const { return ranks_->share().slice(count); }

  DistributedOptions distribution;
  /// topograd::solve(ranks(), *this, options, distribution).
  Summary solve(const SolverOptions& options = {});
  /// The figures of the last solve.
  const DistributedReport& report() const { return report_; }

 private:
  std::unique_ptr<distributed::Communicator> ranks_;
  DistributedReport report_;
};

}  // namespace topograd
