// The accuracy of the sparse factorisation on damped normal equations of the reference problems.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/factor/sparse_factor.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/mgh.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../runtime/factor/factor_matrices.hpp"

namespace topograd::test {
namespace {

using runtime::FactorEnd;
using runtime::cpu::SparseFactor;

/// A problem, and a call of some work with it.
struct Case {
  std::string name;
  std::function<void(const std::function<void(Problem&)>&)> with;
};

/// Meshes, scenes, and the sets of Moré, Garbow and Hillstrom.
std::vector<Case> cases() {
  using namespace problems;
  std::vector<Case> out;
  const auto add = [&](const std::string& name, const auto& make) {
    out.push_back({name, [make](const std::function<void(Problem&)>& work) {
                     const auto made = make();
                     work(made->problem);
                   }});
  };
  for (const std::uint32_t level : {1u, 2u, 3u})
    add("arap " + std::to_string(level), [=] { return arap(icosphere(level)); });
  for (const std::uint32_t level : {1u, 3u})
    add("smooth " + std::to_string(level), [=] { return smooth(icosphere(level)); });
  for (const std::uint32_t width : {8u, 30u})
    add("springs " + std::to_string(width), [=] { return springs(width); });
  add("shuffled springs", [] { return springs(20, 7); });
  for (const std::uint32_t cameras : {3u, 10u}) {
    add("bundle " + std::to_string(cameras), [=] {
      return bundle(
          {.cameras = cameras, .points = 20 * cameras, .observations = 50 * cameras, .noise = 0.5});
    });
  }
  for (const std::string& name : large_mgh_names())
    add(name, [=] { return large_mgh(name, std::min(largest_mgh(name), 200u)); });
  for (const MghProblem& row : mgh_problems()) add(row.name, [&row] { return mgh(row); });
  return out;
}

/// The lower triangle of JᵀJ + λD, D being the diagonal of JᵀJ, clamped as the solver does.
SparseMatrix damped(const SparseMatrix& normal, double lambda) {
  SparseMatrix lower = normal.triangularView<Eigen::Lower>();
  for (Eigen::Index k = 0; k < lower.cols(); ++k) {
    const double entry = normal.coeff(k, k);
    lower.coeffRef(k, k) = entry + lambda * std::clamp(entry, 1e-6, 1e32);
  }
  lower.makeCompressed();
  return lower;
}

constexpr double kRounding = 2 * std::numeric_limits<double>::epsilon();

/// The right side is that of a step, −Jᵀr; where that is 0, ascending numbers.
TEST(FactorAccuracy, IsThatOfPeersOnDampedProblems) {
  const std::vector<Case> all = cases();
  EXPECT_GE(all.size(), 20u);
  for (const Case& c : all) {
    c.with([&](Problem& problem) {
      for (const int steps : {0, 4}) {
        if (steps > 0) solve(problem, {.backend = Backend::cpu, .max_iterations = steps});
        Evaluator evaluator(problem, {.backend = Backend::cpu});
        const SparseMatrix normal = evaluator.jtj();
        Vector right = -evaluator.gradient();
        if (right.isZero(0)) right = Vector::LinSpaced(normal.cols(), -1, 2);
        for (const double lambda : {1e-8, 1e-4, 1.0, 1e4}) {
          SCOPED_TRACE(c.name + ", " + std::to_string(steps) + " steps, " + std::to_string(lambda));
          const SparseMatrix lower = damped(normal, lambda);
          SparseFactor factor(make_factor_plan(pattern_of(lower)), 0);
          ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
          Vector x(right.size());
          factor.solve({right.data(), static_cast<std::size_t>(right.size())},
                       {x.data(), static_cast<std::size_t>(x.size())});
          // Errors of peers may be smaller than any rounding in systems of two unknowns.
          EXPECT_LE(backward_error(lower, right, x),
                    std::max(bound_by_peers(lower, right), kRounding));
        }
      }
    });
  }
}

}  // namespace
}  // namespace topograd::test
