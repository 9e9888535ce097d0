// Derivatives of a problem's solution by its data and uniforms.
#pragma once

#include "../frontend/problem.hpp"
#include "../ir/enum_table.hpp"
#include "../ir/error.hpp"
#include "evaluator.hpp"
#include "options.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace topograd {

/// Second derivatives that a sensitivity uses.
enum class SensitivityForm {
  full,          ///< ∇² of the cost or Lagrangian: the derivative of the solution
  gauss_newton,  ///< JᵀJ: exact where residuals are 0 or linear
};
TG_ENUM_NAMES(SensitivityForm)

/// A part of θ: a data array or a uniform of the problem.
using Theta = std::variant<Data, Uniform>;

struct SensitivityOptions {
  SensitivityForm form = SensitivityForm::full;
  /// A point is no solution if a Newton step would lower the cost by more than this share of it;
  /// > 0. What a short step leaves of a perfect fit does not count.
  double convergence_tolerance = 1e-4;
  SolverOptions solver = {};  ///< backend of evaluations, threads
};

/// Thrown where a solution has no derivative. The code is ErrorCode::InvalidArgument.
class SensitivityError : public Error {
 public:
  enum class Reason {
    unconverged,  ///< the caller's values are no solution
    singular,     ///< the Hessian is indefinite on the free unknowns, or determines none of them
    infeasible,   ///< no change of x keeps the active constraints
    kink,         ///< the cost has no second derivative at x
  };
  SensitivityError(Reason reason, const std::string& message)
      : Error(ErrorCode::InvalidArgument, message), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};
TG_ENUM_NAMES(SensitivityError::Reason)

/// The derivative dx*/dθ of the solution x* that the caller's values are, by the implicit function
/// theorem: H dx = −(∂∇f/∂θ) dθ, where H is the Hessian of the cost, or of the Lagrangian with
/// the gradients of active constraints beside it.
///
/// Losses are part of the cost. Fixed unknowns and those on a bound that the gradient pushes
/// against have derivative 0, active constraints stay active, and blocks on manifolds move in their
/// tangent spaces. x is all parameter arrays one after the other; dx is in its ambient coordinates.
///
/// Unknowns that nothing reads stay: their derivative is 0. Where the Hessian is singular for some
/// unknowns, the derivatives of others, which it determines, are right; those have none.
///
/// θ is a list of data arrays and uniforms, by default all: data arrays in the order of adding,
/// then uniforms. Numbers that were written into residuals are not part of it. Second derivatives
/// are evaluated and factorised once, by the constructor; a product is a pass over the residuals
/// and two triangular solves, and more of them with active constraints. Later changes of the
/// problem have no effect. One thread at a time.
class Sensitivity {
 public:
  /// Throws SensitivityError; Error{Unsupported} for residuals that run on the host, and for
  /// energies with gauss_newton; Error{WrongProblem}, Error{InvalidArgument} for options out of
  /// range, Error{NonFinite}, and the errors of Evaluator.
  explicit Sensitivity(Problem& problem, const SensitivityOptions& options = {});
  Sensitivity(Problem& problem, std::span<const Theta> theta,
              const SensitivityOptions& options = {});
  Sensitivity(Problem& problem, std::initializer_list<Theta> theta,
              const SensitivityOptions& options = {})
      : Sensitivity(problem, std::span(theta.begin(), theta.size()), options) {}
  ~Sensitivity();
  Sensitivity(Sensitivity&&) noexcept;
  Sensitivity& operator=(Sensitivity&&) noexcept;

  std::size_t size() const;  ///< numbers of θ
  /// Position in θ of a part's first number. Throws Error{WrongProblem}, Error{InvalidArgument} if
  /// the part is not one of θ's; so do the following calls.
  std::size_t offset(const Theta& part) const;

  /// (dx*/dθ) dθ, parameter_count() numbers; NaN for unknowns that the Hessian does not determine.
  ///
  ///   dtheta  size() numbers; for a part of θ the numbers of that part
  Eigen::VectorXd jvp(Numbers dtheta) const;
  Eigen::VectorXd jvp(const Data& part, Numbers dtheta) const;
  Eigen::VectorXd jvp(const Uniform& part, double dtheta) const;
  /// (dx*/dθ)ᵀ dx, size() numbers, or those of a part: the gradient by θ of a function of x* whose
  /// gradient by x is dx. Throws SensitivityError{singular} if dx is not 0 for an unknown that the
  /// Hessian does not determine, which it names.
  ///
  ///   dx  parameter_count() numbers
  Eigen::VectorXd vjp(Numbers dx) const;
  Eigen::VectorXd vjp(const Data& part, Numbers dx) const;
  double vjp(const Uniform& part, Numbers dx) const;

  /// Names of the unknowns that are not determined: nothing reads them, or the Hessian is singular.
  std::vector<std::string> undetermined() const;
  std::size_t active_bounds() const;       ///< unknowns on a bound
  std::size_t active_constraints() const;  ///< scalar constraints

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
