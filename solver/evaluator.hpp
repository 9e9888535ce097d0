// Evaluator: residuals and derivatives of a problem at any point.
#pragma once

#include "../frontend/problem.hpp"
#include "../runtime/engine/engine_stats.hpp"
#include "../runtime/plan/record/plan_record.hpp"
#include "asynchronous.hpp"
#include "options.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Numbers that a caller passes in: a span, a std::vector or an Eigen vector of doubles. Refers to
/// them.
class Numbers : public std::span<const double> {
 public:
  Numbers(std::span<const double> values) : std::span<const double>(values) {}     // NOLINT: a view
  Numbers(const std::vector<double>& values) : std::span<const double>(values) {}  // NOLINT
  Numbers(const Eigen::VectorXd& values)                                           // NOLINT
      : std::span<const double>(values.data(), static_cast<std::size_t>(values.size())) {}
};

/// One kernel family of a problem: what is evaluated for each instance of a topology.
struct KernelInfo {
  std::string topology;  ///< hash, 32 hexadecimal digits
  std::string name;      ///< label of its residuals
  std::uint64_t instances = 0;
  std::uint32_t outputs = 0;            ///< residual rows of an instance
  std::uint32_t parameters = 0;         ///< scalars that an instance reads
  std::size_t residual_operations = 0;  ///< ops of one instance
  std::size_t gradient_operations = 0;
  std::size_t jacobian_operations = 0;
  bool energy = false;                   ///< of energies: their value has residual_operations
  std::uint32_t bytes_per_instance = 0;  ///< of the general layout: index and data columns
  std::string backend;                   ///< "cpu" or "vulkan"
};

/// How Evaluator::hessian is made.
struct HessianOptions {
  /// Each residual's or energy's matrix loses its negative eigenvalues before they are summed: what
  /// is left is positive semidefinite.
  bool project_psd = false;
};

/// What Evaluator::evaluate() is asked for.
struct Wanted {
  bool cost = true, residuals = false, gradient = true;
};

/// What it gives; what was not asked for is 0 or empty.
struct Evaluation {
  double cost = 0;
  Eigen::VectorXd residuals, gradient;
};

/// What an Evaluator did so far.
struct EvaluatorReport : runtime::EngineCounts, runtime::MakingTimes {
  std::string backend, device;  ///< what serves now
  std::string why;              ///< one line
  AsyncFigures asynchronous;
  runtime::PlanRecord plan;
};

/// Whether an Evaluator's residuals and derivatives know the robust losses of their blocks.
enum class Losses {
  applied,  ///< residual and Jacobian are the corrected ones that a solve sees, as Ceres' Evaluate
  ignored   ///< r and J as the residuals were written, cost ½ Σ r²
};

/// Evaluates a problem on one backend, chosen once (placement.hpp; under `automatic` the CPU takes
/// over from a device that fails); keeps x and columns there and
/// follows later changes of the problem. The problem outlives it; one thread at a time.
///
/// A point has problem.parameter_count() numbers, all arrays one after the other; residuals come in
/// the order of adding. Calls without x use the caller's current values. Constant scalars have zero
/// derivatives. Values that are not finite are returned as they are.
///
/// Throws Error{Shape} if a span's size is not the one expected, and what the backend throws.
class Evaluator {
 public:
  using SparseMatrix = Eigen::SparseMatrix<double, Eigen::RowMajor>;

  /// Throws Error{EmptyProblem}, Error{InvalidArgument} for options out of range, and what a forced
  /// backend throws.
  explicit Evaluator(Problem& problem, const SolverOptions& options = {},
                     Losses losses = Losses::applied);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  double cost();  ///< ½ Σ ρ(s) over the residual blocks, s = Σ r² of a block, and the energies
  double cost(Numbers x);
  Eigen::VectorXd residuals();
  Eigen::VectorXd residuals(Numbers x);
  Eigen::VectorXd gradient();  ///< of the cost: Jᵀr and the gradients of the energies
  Eigen::VectorXd gradient(Numbers x);
  /// Several of these values by one sweep over the residuals where that is not slower: on a device
  /// in one submission. They are those of the calls above, the cost within rounding.
  Evaluation evaluate(const Wanted& wanted = {});
  Evaluation evaluate(Numbers x, const Wanted& wanted = {});
  /// (rows, scalars), with an entry for every scalar that a residual reads and that is not
  /// constant.
  SparseMatrix jacobian();
  SparseMatrix jacobian(Numbers x);
  SparseMatrix jtj();  ///< JᵀJ, both triangles
  SparseMatrix jtj(Numbers x);

  /// ∇² of the cost, of residuals and energies alike; both triangles. Constant scalars have no
  /// entries.
  SparseMatrix hessian(const HessianOptions& options = {});
  SparseMatrix hessian(Numbers x, const HessianOptions& options = {});
  Eigen::VectorXd hvp(Numbers p);  ///< ∇²cost p
  Eigen::VectorXd hvp(Numbers x, Numbers p);

  // Products of least squares, without energies; the last argument is a vector of scalars (jvp,
  // jtjp) or of rows (vjp).
  Eigen::VectorXd jvp(Numbers p);  ///< J p
  Eigen::VectorXd jvp(Numbers x, Numbers p);
  Eigen::VectorXd vjp(Numbers seeds);  ///< Jᵀ seeds
  Eigen::VectorXd vjp(Numbers x, Numbers seeds);
  Eigen::VectorXd jtjp(Numbers p);  ///< JᵀJ p
  Eigen::VectorXd jtjp(Numbers x, Numbers p);

  // The same at x, without waiting: the call returns once the evaluation is under way, so that the
  // caller can prepare the next while this one runs; results come from get(). x and p are read
  // before it returns. Until the result is there the problem must not change. Each other call of
  // this Evaluator waits for what it needs; on a device two evaluations of a kind are under way at
  // most. Problems with branches or with blocks that run on the host are evaluated at once.
  Async<double> cost_async(Numbers x);
  Async<Eigen::VectorXd> residuals_async(Numbers x);
  Async<Eigen::VectorXd> gradient_async(Numbers x);
  Async<Eigen::VectorXd> jvp_async(Numbers x, Numbers p);
  Async<Eigen::VectorXd> jtjp_async(Numbers x, Numbers p);
  Async<Eigen::VectorXd> hvp_async(Numbers x, Numbers p);

  EvaluatorReport report() const;
  std::vector<KernelInfo> kernels() const;
  std::string backend() const;
  std::string device() const;
  const std::string& why() const;  ///< why it runs there, one line

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
