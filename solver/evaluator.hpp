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

/// A view of numbers that a caller passes: a span, a std::vector or an Eigen vector of doubles.
class Numbers : public std::span<const double> {
 public:
  Numbers(std::span<const double> values) : std::span<const double>(values) {}     // NOLINT: a view
  Numbers(const std::vector<double>& values) : std::span<const double>(values) {}  // NOLINT
  Numbers(const Eigen::VectorXd& values)                                           // NOLINT
      : std::span<const double>(values.data(), static_cast<std::size_t>(values.size())) {}
};

/// One kernel family of a problem: the evaluation of each instance of a topology.
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

/// Options of Evaluator::hessian.
struct HessianOptions {
  /// Removes negative eigenvalues of each residual's or energy's matrix before the sum, so that the
  /// sum is positive semidefinite.
  bool project_psd = false;
};

/// Values that Evaluator::evaluate() should compute.
struct Wanted {
  bool cost = true, residuals = false, gradient = true;
};

/// Result of evaluate(); values that were not requested are 0 or empty.
struct Evaluation {
  double cost = 0;
  Eigen::VectorXd residuals, gradient;
};

/// Counters of an Evaluator.
struct EvaluatorReport : runtime::EngineCounts, runtime::MakingTimes {
  std::string backend, device;  ///< in use now
  std::string why;              ///< reason for it, one line
  AsyncFigures asynchronous;
  runtime::PlanRecord plan;
};

/// Treatment of robust losses in an Evaluator's residuals and derivatives.
enum class Losses {
  applied,  ///< corrected residual and Jacobian as in a solve and in Ceres' Evaluate
  ignored   ///< r and J as the residuals were written, cost ½ Σ r²
};

/// Evaluates a problem on one backend, chosen once (plan/decide.hpp; under `automatic` the CPU
/// takes over from a failing device). It keeps x and the columns there and follows later changes of
/// the problem, which must outlive it. One thread at a time.
///
/// A point has problem.parameter_count() numbers, all arrays one after the other; residuals are in
/// the order of adding. Calls without x use the caller's current values. Derivatives by fixed
/// scalars are zero. Values that are not finite are returned unchanged.
///
/// Throws Error{Shape} if a span has the wrong size, and the errors of the backend.
class Evaluator {
 public:
  using SparseMatrix = Eigen::SparseMatrix<double, Eigen::RowMajor>;

  /// Throws Error{EmptyProblem}, Error{InvalidArgument} for options out of range, and the errors of
  /// a forced backend.
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
  /// Computes several of these values in one sweep over the residuals unless that is slower, on a
  /// device in one submission. They equal those of the calls above, the cost up to rounding.
  Evaluation evaluate(const Wanted& wanted = {});
  Evaluation evaluate(Numbers x, const Wanted& wanted = {});
  /// (rows, scalars), with an entry for every free scalar that a residual reads.
  SparseMatrix jacobian();
  SparseMatrix jacobian(Numbers x);
  SparseMatrix jtj();  ///< JᵀJ, both triangles
  SparseMatrix jtj(Numbers x);

  /// ∇² of the cost (residuals and energies), both triangles. Fixed scalars have no entries.
  SparseMatrix hessian(const HessianOptions& options = {});
  SparseMatrix hessian(Numbers x, const HessianOptions& options = {});
  Eigen::VectorXd hvp(Numbers p);  ///< ∇²cost p
  Eigen::VectorXd hvp(Numbers x, Numbers p);

  // Products for least squares, without energies; the last argument is a vector of scalars (jvp,
  // jtjp) or of rows (vjp).
  Eigen::VectorXd jvp(Numbers p);  ///< J p
  Eigen::VectorXd jvp(Numbers x, Numbers p);
  Eigen::VectorXd vjp(Numbers seeds);  ///< Jᵀ seeds
  Eigen::VectorXd vjp(Numbers x, Numbers seeds);
  Eigen::VectorXd jtjp(Numbers p);  ///< JᵀJ p
  Eigen::VectorXd jtjp(Numbers x, Numbers p);

  // The same at x, without waiting: the call returns when x and p are read and the evaluation has
  // started; get() returns the result. The problem must not change until then. Other calls of this
  // Evaluator wait for what they need; on a device at most two evaluations of a kind run at a time.
  // Problems with branches or with blocks that run on the host are evaluated before the call
  // returns.
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
  const std::string& why() const;  ///< reason for the backend, one line

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
