// Central differences of residuals, several columns of the Jacobian at a time.
#include "../check_gradients.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../ir/error.hpp"
#include "../evaluator.hpp"
#include "../model/nonfinite.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

namespace topograd {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using SparseColumns = Eigen::SparseMatrix<double>;

constexpr std::size_t kMostRows = 10;
constexpr int kSteps = 3;
/// Differences of values of size r over a step h are off by some units of rounding of r / h.
constexpr double kRounding = 1e3 * std::numeric_limits<double>::epsilon();

/// Derivatives along a direction, and what they may be off by.
struct Differences {
  VectorXd slope, off;
};

/// Derivative of f along a direction, whose numbers are the largest steps, by Richardson's
/// extrapolation.
Differences differences(const std::function<VectorXd(const VectorXd&)>& f, const VectorXd& x,
                        const VectorXd& direction) {
  VectorXd table[kSteps];
  Differences out;
  double share = 1;
  for (int k = 0; k < kSteps; ++k, share /= 2) {
    const VectorXd above = f(x + share * direction), below = f(x - share * direction);
    table[k] = (above - below) / (2 * share);
    out.off = kRounding / share * above.cwiseAbs().cwiseMax(below.cwiseAbs());
  }
  double factor = 4;
  for (int order = 1; order < kSteps; ++order, factor *= 4) {
    for (int k = kSteps - 1; k >= order; --k) {
      const VectorXd better = table[k] + (table[k] - table[k - 1]) / (factor - 1);
      if (k == kSteps - 1) out.off += (better - table[k]).cwiseAbs() / factor;
      table[k] = better;
    }
  }
  out.slope = table[kSteps - 1];
  return out;
}

class Check {
 public:
  Check(Problem& problem, const GradientCheckOptions& options)
      : problem_(problem),
        options_(options),
        evaluator_(problem, options.solver, Losses::ignored),
        x_(static_cast<Index>(problem.parameter_count())) {
    problem.read_x({x_.data(), static_cast<std::size_t>(x_.size())});
    constant_.assign(problem.constant_mask().begin(), problem.constant_mask().end());
  }

  GradientCheck run() {
    if (problem_.residual_count() > 0) check_residuals();
    if (problem_.energy_count() > 0) check_gradient();
    return std::move(result_);
  }

 private:
  bool constant(Index scalar) const {
    return !constant_.empty() && constant_[static_cast<std::size_t>(scalar)] != 0;
  }
  double step(Index scalar) const {
    return options_.relative_step_size * std::max(std::abs(x_[scalar]), 1.0);
  }

  /// Columns in groups, each without two that share a row; greedily, in their order.
  std::vector<std::vector<Index>> groups(const SparseColumns& jacobian) const {
    std::vector<std::vector<Index>> out;
    std::vector<std::vector<char>> taken;
    for (Index c = 0; c < jacobian.cols(); ++c) {
      if (constant(c)) continue;
      const auto fits = [&](const std::vector<char>& rows) {
        for (SparseColumns::InnerIterator at(jacobian, c); at; ++at)
          if (rows[static_cast<std::size_t>(at.row())] != 0) return false;
        return true;
      };
      const auto found = std::ranges::find_if(taken, fits);
      const auto group = static_cast<std::size_t>(found - taken.begin());
      if (found == taken.end()) {
        taken.emplace_back(static_cast<std::size_t>(jacobian.rows()), 0);
        out.emplace_back();
      }
      out[group].push_back(c);
      for (SparseColumns::InnerIterator at(jacobian, c); at; ++at)
        taken[group][static_cast<std::size_t>(at.row())] = 1;
    }
    return out;
  }

  void check_residuals() {
    const SparseColumns jacobian = evaluator_.jacobian(x_);
    const auto residuals = [this](const VectorXd& x) { return evaluator_.residuals(x); };
    for (const std::vector<Index>& group : groups(jacobian)) {
      VectorXd direction = VectorXd::Zero(x_.size());
      for (const Index c : group) direction[c] = step(c);
      const Differences found = differences(residuals, x_, direction);
      std::vector<char> claimed(static_cast<std::size_t>(jacobian.rows()), 0);
      for (const Index c : group) {
        for (SparseColumns::InnerIterator at(jacobian, c); at; ++at) {
          claimed[static_cast<std::size_t>(at.row())] = 1;
          compare(row_text(at.row()) + " by " + unknown_text(c), at.value(), found, at.row(),
                  step(c));
        }
      }
      for (Index r = 0; r < jacobian.rows(); ++r) {
        if (claimed[static_cast<std::size_t>(r)] == 0)
          compare(row_text(r) + " by scalars that it does not claim to read", 0, found, r, 1);
      }
    }
  }

  void check_gradient() {
    const VectorXd gradient = evaluator_.gradient(x_);
    const auto cost = [this](const VectorXd& x) {
      return VectorXd::Constant(1, evaluator_.cost(x));
    };
    for (Index c = 0; c < x_.size(); ++c) {
      if (constant(c)) continue;
      const Differences found = differences(cost, x_, step(c) * VectorXd::Unit(x_.size(), c));
      compare("the cost by " + unknown_text(c), gradient[c], found, 0, step(c));
    }
  }

  /// `unit`: the step that the differences' direction makes in the scalar.
  void compare(const std::string& what, double given, const Differences& found, Index row,
               double unit) {
    const double want = found.slope[row] / unit, off = found.off[row] / unit;
    if (!std::isfinite(want) || !std::isfinite(off)) return;
    ++result_.compared;
    const double difference = std::abs(given - want);
    const double size = std::max(std::abs(given), std::abs(want));
    if (difference <= options_.relative_precision * size + off) return;
    ++result_.wrong;
    const double error = std::isnan(difference) ? difference : difference / size;
    result_.maximum_relative_error = std::max(error, result_.maximum_relative_error);
    if (result_.messages.size() == kMostRows) return;
    result_.messages.push_back(what + ": " + number_text(given) + ", by differences " +
                               number_text(want) + ", relative error " + number_text(error));
  }

  /// residual "edge" #7, row 1
  std::string row_text(Index row) const {
    const Place located = problem_.locate(static_cast<std::uint64_t>(row));
    const bool host = located.topology == Place::kHost;
    std::string label(located.label);
    if (label.empty()) label = host ? "host" : "residual" + std::to_string(located.topology);
    return (host ? "host residual \"" : "residual \"") + label + "\" #" +
           std::to_string(located.instance) + ", row " + std::to_string(located.output);
  }

  std::string unknown_text(Index scalar) const {
    return scalar_text(problem_.arrays(), static_cast<std::uint64_t>(scalar));
  }

  Problem& problem_;
  const GradientCheckOptions& options_;
  Evaluator evaluator_;
  VectorXd x_;
  std::vector<std::uint8_t> constant_;
  GradientCheck result_;
};

}  // namespace

GradientCheck check_gradients(Problem& problem, const GradientCheckOptions& options) {
  const auto fail = [](const char* field, const char* range, double got) {
    throw Error(ErrorCode::InvalidArgument, std::string("check_gradients: ") + field + " must be " +
                                                range + ", got " + number_text(got));
  };
  if (!(options.relative_precision > 0 && options.relative_precision < 1))
    fail("relative_precision", "in (0, 1)", options.relative_precision);
  if (!(options.relative_step_size > 0))
    fail("relative_step_size", "> 0", options.relative_step_size);
  GradientCheckOptions in_double = options;
  in_double.solver.precision = Precision::f64;
  return Check(problem, in_double).run();
}

}  // namespace topograd
