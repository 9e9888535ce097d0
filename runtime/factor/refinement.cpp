// Residuals of a symmetric matrix, and steps of refinement.
#include "refinement.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace topograd::runtime {
namespace {

/// A residual that has not halved is not going to.
constexpr double kStagnates = 0.5;

/// Largest numbers of a residual, and of the terms in it.
struct Sizes {
  double residual, terms;

  double error() const { return residual == 0 ? 0 : residual / terms; }
};

Sizes find_residual(const SymmetricMatrix& a, std::span<const double> right,
                    std::span<const double> solution, std::span<double> residual) {
  std::vector<double> sizes(right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    residual[i] = right[i];
    sizes[i] = std::abs(right[i]);
  }
  const auto subtract = [&](std::size_t r, std::size_t c, double value) {
    residual[r] -= value * solution[c];
    sizes[r] += std::abs(value * solution[c]);
  };
  for (std::size_t c = 0; c < right.size(); ++c) {
    for (auto v = static_cast<std::size_t>(a.lower.starts[c]);
         v < static_cast<std::size_t>(a.lower.starts[c + 1]); ++v) {
      const auto r = static_cast<std::size_t>(a.lower.rows[v]);
      subtract(r, c, a.values[v]);
      if (r != c) subtract(c, r, a.values[v]);
    }
  }
  Sizes out{};
  for (std::size_t i = 0; i < right.size(); ++i) {
    out.terms = std::max(out.terms, sizes[i]);
    out.residual = std::isfinite(residual[i]) ? std::max(out.residual, std::abs(residual[i]))
                                              : std::numeric_limits<double>::infinity();
    if (std::isinf(out.residual)) break;
  }
  return out;
}

}  // namespace

SolveReport solve_refined(
    const SymmetricMatrix& a, std::span<const double> right, std::span<double> solution,
    const std::function<void(std::span<const double>, std::span<double>)>& solve,
    const RefinementRule& rule) {
  SolveReport out{.accurate = true};
  if (right.empty()) return out;
  solve(right, solution);
  std::vector<double> residual(right.size()), change(right.size()), better(right.size());
  Sizes before = find_residual(a, right, solution, residual);
  if (!std::isfinite(before.residual)) {
    std::ranges::fill(solution, 0.0);
    return {.backward_error = 1};
  }
  for (; out.refinements < rule.most; ++out.refinements) {
    if (!(before.residual > std::numeric_limits<double>::epsilon() * before.terms)) break;
    // Numbers of f32 underflow where residuals become small.
    for (double& number : residual) number /= before.residual;
    solve(residual, change);
    for (std::size_t i = 0; i < change.size(); ++i)
      better[i] = solution[i] + before.residual * change[i];
    const Sizes after = find_residual(a, right, better, residual);
    if (!(after.residual < before.residual)) break;
    std::ranges::copy(better, solution.begin());
    const bool stagnates = after.residual > kStagnates * before.residual;
    before = after;
    if (stagnates) break;
  }
  out.backward_error = before.error();
  out.accurate = out.backward_error <= rule.accurate;
  return out;
}

}  // namespace topograd::runtime
