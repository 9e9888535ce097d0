// Solutions by a factor, refined with residuals in double precision, and how exact they are.
#pragma once

#include "fill_order.hpp"

#include <functional>
#include <span>

namespace topograd::runtime {

/// The lower triangle of a symmetric matrix.
struct SymmetricMatrix {
  LowerPattern lower;
  std::span<const double> values;
};

struct RefinementRule {
  int most = 40;            ///< steps
  double accurate = 1e-12;  ///< backward error of an accurate solution, at most
};

struct SolveReport {
  bool accurate = false;
  int refinements = 0;
  double backward_error = 0;  ///< max_i |b − Ax|_i / max_i (|A| |x| + |b|)_i
};

/// Solves A x = b by `solve`, which is a factor of A or of a matrix near it, and refines x until
/// its backward error is that of rounding, or no longer halves. If the solutions of `solve` are not
/// finite, x is 0 and not accurate.
///
///   solve  (right, solution): solution = F⁻¹ right
///
/// Cost: a solution and a product with A for each step. Source: Higham, Accuracy and Stability of
/// Numerical Algorithms, 2nd ed., chapter 12.
SolveReport solve_refined(
    const SymmetricMatrix& a, std::span<const double> right, std::span<double> solution,
    const std::function<void(std::span<const double>, std::span<double>)>& solve,
    const RefinementRule& rule = {});

}  // namespace topograd::runtime
