// Minimisers of any function that gives a value and a gradient.
#pragma once

#include "options.hpp"
#include "summary.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace topograd {

/// The function to minimise. Callables run on the calling thread; their exceptions end the
/// minimisation and reach its caller.
struct Objective {
  std::size_t size = 0;          ///< numbers of a point
  std::size_t tangent_size = 0;  ///< numbers of a step and of a gradient; 0 = size

  /// Returns the value at x; writes the gradient unless `gradient` is empty. If a value or gradient
  /// is not finite, x is unusable and a line search takes a shorter step.
  std::function<double(std::span<const double> x, std::span<double> gradient)> evaluate;

  /// result = x ⊕ step, for points on a manifold; empty means addition.
  std::function<void(std::span<const double> x, std::span<const double> step,
                     std::span<double> result)>
      plus;

  /// Non-zero for fixed coordinates of a step; empty means none.
  std::span<const std::uint8_t> constant = {};

  /// The box of the points, with infinities; both empty: none. Not together with `plus`.
  std::span<const double> lower = {}, upper = {};
  bool bounded() const { return !lower.empty(); }

  /// Units of the gradient's entries: SolverOptions::absolute_gradient_tolerance is compared with
  /// max |g_i| / unit. Empty: 1.
  std::span<const double> gradient_units = {};

  /// result = x ⊕ step, projected on the box.
  void move(std::span<const double> x, std::span<const double> step,
            std::span<double> result) const {
    if (plus) return plus(x, step, result);
    for (std::size_t k = 0; k < x.size(); ++k) result[k] = x[k] + step[k];
    for (std::size_t k = 0; k < lower.size(); ++k) {
      if (result[k] < lower[k]) result[k] = lower[k];
      if (result[k] > upper[k]) result[k] = upper[k];
    }
  }
  std::size_t steps() const { return tangent_size == 0 ? size : tangent_size; }
};

/// Minimises by L-BFGS from x, which is always the best point, even after an exception.
///
///   options  max_lbfgs_rank, line_search, tolerances and bounds, callback are read
///   leaves   asked between steps, may be empty
///
/// Returns false if it left before the end. Sets costs, history, steps, termination and message of
/// the summary; an existing history is continued. Throws Error{NonFinite} if value or gradient are
/// not finite at the start, and the errors of the function.
bool minimize_lbfgs(const Objective& objective, std::span<double> x, const SolverOptions& options,
                    Summary& summary, const std::function<bool()>& leaves = {});

/// Minimises from x by options.method, which is adam, adamw or sgd, with options.first_order.
///
/// These methods also go uphill: x ends at the best point seen. They stop at the gradient tolerance
/// and at limits; changes of cost and x are not tested, because they do not show convergence. A
/// step to a value or gradient that is not finite is rejected and retried with an empty history and
/// half the learning rate. Otherwise like minimize_lbfgs().
///
/// Source: Kingma & Ba, Adam (2015); Loshchilov & Hutter, Decoupled Weight Decay Regularization
/// (2019).
void minimize_first_order(const Objective& objective, std::span<double> x,
                          const SolverOptions& options, Summary& summary);

}  // namespace topograd
