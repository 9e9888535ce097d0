// The linear system of the optimality (KKT) conditions at a solution, and its solver.
#pragma once

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/manifold.hpp"
#include "../host/tangent_space.hpp"
#include "../linear/factor/elimination.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../sensitivity.hpp"

#include <Eigen/Core>
#include <Eigen/QR>
#include <Eigen/SparseCore>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// A factor of H with rows and columns scaled to a unit diagonal, by components: columns that no
/// entry joins with others do not disturb them.
class SymmetricSolver {
 public:
  /// The column at which a matrix is indefinite, or singular as a whole.
  struct Failure {
    std::uint32_t column = 0;
    double pivot = 0;  ///< of the scaled matrix, or the smallest eigenvalue over the largest
  };
  /// A positive semidefinite matrix says this about one unknown of H u = b.
  enum class Unknown : std::uint8_t {
    determined,
    singular,  ///< not unique
    absent,    ///< no entry is of it
  };

  ///   lower    lower triangle with all diagonal entries
  ///   threads  0 = all
  SymmetricSolver(const SparseMatrix& lower, int threads);
  ~SymmetricSolver();
  SymmetricSolver(SymmetricSolver&&) noexcept;
  SymmetricSolver& operator=(SymmetricSolver&&) noexcept;

  /// Empty if the matrix is positive semidefinite in working precision and determines an unknown;
  /// else solve() must not follow.
  const std::optional<Failure>& failure() const;
  Unknown unknown(Eigen::Index column) const;
  /// Solves for the unknowns that are determined; others are one choice of many, or 0 if absent.
  Eigen::VectorXd solve(const Eigen::VectorXd& right) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// ∂²/∂δ² of gᵀ(x ⊞ δ) at δ = 0: what a Hessian in tangent coordinates has beside Pᵀ∇²f P. Central
/// differences of three lengths, extrapolated to about ten digits; opaque manifolds too.
///
///   x, gradient  ambient_size() numbers each
///
/// Returns a (t, t) matrix of NaN if the manifold refuses a point nearby.
Eigen::MatrixXd manifold_curvature(const Manifold& manifold, const double* x,
                                   const double* gradient);

/// [H Aᵀ; A 0] in coordinates: tangents of manifolds, free scalars, without those on active bounds.
/// H is the Hessian of the augmented Lagrangian, whose penalties μ AᵀA do not change the solution,
/// since A dx is given; A has the gradients of active constraints, each times
/// the scale d that its solve has left.
///
/// Where gradients depend on each other, their multipliers are not unique, but dx is.
///
/// Source: Fiacco, Introduction to Sensitivity and Stability Analysis in Nonlinear Programming
/// (1983), chapter 3; Nocedal & Wright, Numerical Optimization, 2nd ed., section 12.5.
class OptimalitySystem {
 public:
  /// Evaluates, assembles and factorises at x.
  ///
  ///   model    with constraints and losses
  ///   sources  of the same problem
  ///
  /// Throws what the constructor of Sensitivity throws.
  OptimalitySystem(const ProblemModel& model, const NumberSources& sources,
                   std::span<const double> x, const SensitivityOptions& options);

  /// P u: coordinates to the scalars of x.
  Eigen::VectorXd spread(const Eigen::VectorXd& u) const { return basis_ * u; }
  /// Pᵀ v.
  Eigen::VectorXd gather(const Eigen::VectorXd& v) const { return basis_.transpose() * v; }

  struct Solution {
    Eigen::VectorXd u;  ///< in coordinates
    Eigen::VectorXd y;  ///< by active constraint
  };
  /// [H Aᵀ; A 0] [u; y] = [b; d]. Throws SensitivityError{infeasible} if A u = d has no solution.
  ///
  ///   needed  false: d need not fit constraints that depend on each other
  Solution solve(const Eigen::VectorXd& b, const Eigen::VectorXd& d, bool needed = true) const;

  /// The coordinate of a column of the tangent space; TangentSpace::kNone if it is on a bound.
  std::uint32_t coordinate(std::uint32_t column) const { return coordinates_[column]; }
  Eigen::Index coordinates() const { return basis_.cols(); }
  /// Whether H determines a coordinate. The solutions below are meaningless for singular ones.
  SymmetricSolver::Unknown unknown(Eigen::Index coordinate) const {
    return solver_->unknown(coordinate);
  }
  bool determined(Eigen::Index coordinate) const {
    return unknown(coordinate) == SymmetricSolver::Unknown::determined;
  }
  /// A scalar of x that moves along the coordinate.
  std::uint32_t scalar_of(Eigen::Index coordinate) const {
    return scalar_of_[static_cast<std::size_t>(coordinate)];
  }
  /// Number of determined coordinates, less the independent active constraints.
  std::size_t degrees_of_freedom() const;

  /// Rows of the model that active constraints have, ascending.
  std::span<const std::uint32_t> active_rows() const { return active_rows_; }
  double penalty_weight() const { return weight_; }  ///< w: rows are w (s − d c)
  std::size_t active_bounds() const { return active_bounds_; }

 private:
  struct Assembly;

  void find_active_bounds(Assembly& at);
  void find_active_constraints(Assembly& at, const NumberSources& sources);
  void make_basis(const Assembly& at);
  SparseMatrix hessian(Assembly& at) const;
  void take_constraints(Assembly& at);
  void prepare_multipliers();
  void require_solution(const Assembly& at, double tolerance) const;
  Eigen::VectorXd multipliers(const Eigen::VectorXd& right, bool needed) const;

  std::vector<std::uint32_t> coordinates_;  // by column of the tangent space
  SparseMatrix basis_;                      // P, (scalars of x, coordinates)
  std::vector<std::uint32_t> scalar_of_;    // a scalar of each coordinate, for messages
  std::optional<SymmetricSolver> solver_;   // of H
  Eigen::SparseMatrix<double, Eigen::RowMajor> gradients_;  // A
  std::vector<std::uint32_t> active_rows_;
  std::optional<Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> > dense_;  // of A H⁻¹ Aᵀ
  double weight_ = 0;
  std::size_t active_bounds_ = 0;
};

}  // namespace topograd
