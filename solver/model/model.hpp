// A Problem as engines see it, with its manifolds as programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../ir/hash.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"
#include "../options.hpp"
#include "../solve_group.hpp"

namespace topograd {

/// The residuals of a problem that several processes solve, where each process has added a share of
/// them. The order of all instances of a term is that of the processes, then that of adding.
class ModelShares {
 public:
  virtual ~ModelShares() = default;

  /// Instances of a term in all processes.
  virtual std::uint64_t instances(std::size_t term) const = 0;
  /// Instances of a term in the processes before this one.
  virtual std::uint64_t first_instance(std::size_t term) const = 0;
  /// Rows of residuals, or of energies, in the processes before this one.
  virtual std::uint64_t first_row(bool energies) const = 0;

  // Collective: all processes call them in the same order.

  /// The first text that is not empty, in the order of the processes, on all of them.
  virtual std::string first_text(const std::string& here) const = 0;
  /// Sets each flag that is set in one process.
  virtual void join(std::span<std::uint8_t> flags) const = 0;
  /// The sums of both halves, modulo 2^64.
  virtual ir::Hash128 sum(ir::Hash128 here) const = 0;
};

/// Manifolds of all blocks on manifolds that are not fixed. Null, so that the host makes the steps,
/// if there are none, if a manifold is opaque, has no tangents, is wider than kernels of blocks or
/// has single fixed coordinates, or if there are more than 32 kinds.
///
/// Cost: linear in the blocks; every manifold is traced once.
std::shared_ptr<const runtime::Manifolds> make_manifolds(const Problem& problem);

/// True if no bound of the model is on a scalar of a block on a manifold.
bool bounds_spare_manifolds(const runtime::Model& model);

/// True if engines can move the problem's blocks on their manifolds.
bool engines_know_manifolds(const Problem& problem);

/// The terms that stand for constraints in a model.
enum class ConstraintTerms {
  none,       ///< constraints are no part of it
  penalties,  ///< residuals that penalise constraints, after the rows of the problem's residuals
  barriers,   ///< the same for equalities; inequalities are energies, −μ log c
};

/// The terms for a method's constraints; none if it takes no constraints.
ConstraintTerms constraint_terms(Method method);

/// A model and the origin of its terms. Topologies without instances are left out.
struct ProblemModel {
  runtime::Model model;
  std::vector<std::size_t> topologies;  ///< by term: number of its topology in the problem
  const Problem* problem = nullptr;
  bool with_losses = true;  ///< arguments of make_model
  ConstraintTerms constraints = ConstraintTerms::none;
  std::vector<std::unique_ptr<ir::Topology>> own_topologies;  ///< of rewritten terms
  /// Units of the gradient's entries, by scalar, where SolverOptions::absolute_gradient_tolerance
  /// is to be compared with max |g_i| / unit; equal on a block on a manifold. Empty: 1.
  std::vector<double> gradient_units;
  /// Null: the terms have all instances. Otherwise they have those of this process, terms without
  /// any are kept, and model.rows counts the rows of all processes.
  std::shared_ptr<const ModelShares> shares;

  /// Counts over all processes, as in the functions below.
  std::uint64_t instances() const;
  std::uint64_t instances(std::size_t term) const;
  std::uint64_t energies() const;
  /// The text of the first process that has one. Collective if there are shares.
  std::optional<std::string> first_of_all(std::optional<std::string> here) const;
  /// "residual "edge" #7 (topology ...)": label, index in the batch, hash.
  std::string describe(std::size_t term, std::size_t instance) const;
};

/// `topologies` of a term that this process has no instances of.
inline constexpr std::size_t kNoTopology = ~std::size_t{0};

/// Makes a model. Copies small data; batches and topologies are references, so the problem must
/// outlive it.
///
///   call         name for messages, e.g. "solve"
///   with_losses  false: ignore robust losses
///   constraints  what stands for them
///   of_share     true: there may be no residuals
///
/// Throws Error{EmptyProblem} if there is no residual or no parameter.
ProblemModel make_model(const char* call, const Problem& problem, bool with_losses = true,
                        ConstraintTerms constraints = ConstraintTerms::none, bool of_share = false);

/// The model that solve() minimises: the problem's, or that of the shares of a group's processes.
///
///   group  null: this process alone
ProblemModel model_of_solve(const Problem& problem, ConstraintTerms constraints, SolveGroup* group);

/// Throws Error{InvalidArgument} that names array, block and manifold if a block with free
/// coordinates is not on its manifold: a zero quaternion, the centre of a sphere.
void check_manifolds(const char* call, const Problem& problem, std::span<const double> x);

/// Moves blocks on manifolds to the representatives of their points from which solves start well:
/// angles of rotations to [0, π]. Blocks with fixed or bounded coordinates stay.
void reduce_manifolds(const Problem& problem, std::span<double> x);

/// Entries of a gradient against whose bound it pushes its scalar become 0.
void hold_at_bounds(const runtime::Model& model, std::span<const double> x,
                    std::span<double> gradient);

/// True if a scalar has a finite bound now; removed bounds do not count.
bool has_bounds(const Problem& problem);

}  // namespace topograd
