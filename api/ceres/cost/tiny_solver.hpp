// TinySolver: a Levenberg-Marquardt method for small dense problems, all in a header.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ceres {

/// Minimises ½ ‖f(x)‖² for a few unknowns on the calling thread, without a Problem.
///
/// Function has `using Scalar`, the constants NUM_RESIDUALS and NUM_PARAMETERS (or Eigen::Dynamic
/// with members NumResiduals() and NumParameters()) and
/// `bool operator()(const Scalar* x, Scalar* residuals, Scalar* jacobian) const`, whose jacobian is
/// nullptr or (NUM_RESIDUALS, NUM_PARAMETERS) column-major. A trial point at which it returns false
/// is rejected. A solver keeps its memory between solves.
/// Source: Madsen, Nielsen & Tingleff, Methods for Non-Linear Least Squares Problems, 2004, §3.2.
template <typename Function,
          typename LinearSolver = Eigen::LDLT<Eigen::Matrix<
              typename Function::Scalar, Function::NUM_PARAMETERS, Function::NUM_PARAMETERS>>>
class TinySolver {
 public:
  enum {
    NUM_RESIDUALS = Function::NUM_RESIDUALS,
    NUM_PARAMETERS = Function::NUM_PARAMETERS,
  };
  using Scalar = typename Function::Scalar;
  using Parameters = Eigen::Matrix<Scalar, NUM_PARAMETERS, 1>;

  enum Status {
    GRADIENT_TOO_SMALL,            ///< ‖Jᵀf‖∞ < gradient_tolerance
    RELATIVE_STEP_SIZE_TOO_SMALL,  ///< ‖step‖ < parameter_tolerance (‖x‖ + parameter_tolerance)
    COST_TOO_SMALL,                ///< cost < cost_threshold
    HIT_MAX_ITERATIONS,
    COST_CHANGE_TOO_SMALL,  ///< |cost change| < function_tolerance cost
  };

  struct Options {
    int max_num_iterations = 50;
    Scalar gradient_tolerance = 1e-10;
    Scalar parameter_tolerance = 1e-8;
    Scalar function_tolerance = 1e-6;
    Scalar cost_threshold = std::numeric_limits<Scalar>::epsilon();
    Scalar initial_trust_region_radius = 1e4;
  };

  struct Summary {
    Scalar initial_cost = -1;       ///< ½ ‖f‖²
    Scalar final_cost = -1;         ///< ½ ‖f‖²
    Scalar gradient_max_norm = -1;  ///< at the end
    int iterations = -1;
    Status status = HIT_MAX_ITERATIONS;
  };

  /// Evaluates function and Jacobian at x; returns true if a stopping rule is met there.
  bool Update(const Function& function, const Parameters& x) {
    if (!function(x.data(), residuals_.data(), jacobian_.data())) return false;
    residuals_ = -residuals_;
    // Scales columns to similar norms; 1 is added so that a column of zeros keeps its scale.
    if (summary.iterations == 0)
      scaling_ = (jacobian_.colwise().norm().array() + Scalar(1)).inverse().matrix().transpose();
    jacobian_ = jacobian_ * scaling_.asDiagonal();
    normal_ = jacobian_.transpose() * jacobian_;
    gradient_ = jacobian_.transpose() * residuals_;
    summary.gradient_max_norm = gradient_.array().abs().maxCoeff();
    cost_ = residuals_.squaredNorm() / 2;
    if (summary.gradient_max_norm < options.gradient_tolerance) {
      summary.status = GRADIENT_TOO_SMALL;
    } else if (cost_ < options.cost_threshold) {
      summary.status = COST_TOO_SMALL;
    } else {
      return false;
    }
    return true;
  }

  /// Minimises from *x_and_min, which receives the best point.
  const Summary& Solve(const Function& function, Parameters* x_and_min) {
    Parameters& x = *x_and_min;
    Resize(Count<NUM_RESIDUALS>([&](const auto& f) { return f.NumResiduals(); }, function),
           Count<NUM_PARAMETERS>([&](const auto& f) { return f.NumParameters(); }, function));
    summary = Summary();
    summary.iterations = 0;
    const bool done = Update(function, x);
    summary.initial_cost = summary.final_cost = cost_;
    if (done) return summary;

    Scalar damping = 1 / options.initial_trust_region_radius, growth = 2;
    for (summary.iterations = 1; summary.iterations < options.max_num_iterations;
         ++summary.iterations) {
      damped_ = normal_;
      damped_.diagonal() +=
          damping * normal_.diagonal().cwiseMax(Scalar(1e-6)).cwiseMin(Scalar(1e32));
      solver_.compute(damped_);
      step_ = solver_.solve(gradient_);
      move_ = scaling_.asDiagonal() * step_;
      const Scalar tolerance =
          options.parameter_tolerance * (x.norm() + options.parameter_tolerance);
      if (move_.norm() < tolerance) {
        summary.status = RELATIVE_STEP_SIZE_TOO_SMALL;
        break;
      }
      trial_ = x + move_;
      const Scalar gain = Gain(function);
      if (gain > 0) {
        x = trial_;
        const bool small = std::abs(change_) < options.function_tolerance * cost_;
        if (Update(function, x)) break;
        if (small) {
          summary.status = COST_CHANGE_TOO_SMALL;
          break;
        }
        const Scalar cubed = 2 * gain - 1;
        damping *= std::max(Scalar(1) / 3, 1 - cubed * cubed * cubed);
        growth = 2;
        continue;
      }
      damping *= growth;
      growth *= 2;
    }
    summary.final_cost = cost_;
    return summary;
  }

  Options options;
  Summary summary;

 private:
  using Residuals = Eigen::Matrix<Scalar, NUM_RESIDUALS, 1>;
  using Square = Eigen::Matrix<Scalar, NUM_PARAMETERS, NUM_PARAMETERS>;

  template <int kCount, class Ask>
  static Eigen::Index Count(const Ask& ask, const Function& function) {
    if constexpr (kCount == Eigen::Dynamic) {
      return ask(function);
    } else {
      return kCount;
    }
  }

  void Resize(Eigen::Index rows, Eigen::Index columns) {
    residuals_.resize(rows);
    trial_residuals_.resize(rows);
    jacobian_.resize(rows, columns);
    for (Parameters* v : {&scaling_, &gradient_, &step_, &move_, &trial_}) v->resize(columns);
    normal_.resize(columns, columns);
    damped_.resize(columns, columns);
  }

  /// Ratio of actual to expected decrease of the cost by the step; negative if there is no cost.
  Scalar Gain(const Function& function) {
    if (!function(trial_.data(), trial_residuals_.data(), nullptr)) return -1;
    change_ = cost_ - trial_residuals_.squaredNorm() / 2;
    const Scalar expected = step_.dot(gradient_ - normal_ * step_ / 2);
    const Scalar gain = change_ / expected;
    return gain == gain ? gain : Scalar(-1);
  }

  Scalar cost_ = 0, change_ = 0;
  Residuals residuals_, trial_residuals_;  // residuals_ has the negative residuals
  Eigen::Matrix<Scalar, NUM_RESIDUALS, NUM_PARAMETERS> jacobian_;
  Parameters scaling_, gradient_, step_, move_, trial_;
  Square normal_, damped_;
  LinearSolver solver_;
};

}  // namespace ceres
