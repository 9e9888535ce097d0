// Plans of sparse factorisations against Eigen's symbolic analysis.
#include <gtest/gtest.h>

#include "../../../runtime/factor/factor_plan.hpp"
#include "factor_matrices.hpp"

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCholesky>

#include <algorithm>
#include <limits>
#include <numeric>

namespace topograd::test {
namespace {

using runtime::FactorPlan;
using runtime::Front;
using runtime::make_factor_plan;

/// The factor of Eigen's own analysis in the plan's order.
SparseMatrix factor_in_order(const SparseMatrix& lower, const std::vector<std::uint32_t>& order) {
  Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> place(lower.rows());
  for (std::size_t k = 0; k < order.size(); ++k) place.indices()[order[k]] = static_cast<int>(k);
  SparseMatrix permuted(lower.rows(), lower.cols());
  permuted.selfadjointView<Eigen::Lower>() = lower.selfadjointView<Eigen::Lower>().twistedBy(place);
  const Eigen::SimplicialLLT<SparseMatrix, Eigen::Lower, Eigen::NaturalOrdering<int>> factor(
      permuted);
  return factor.matrixL();
}

TEST(FactorPlan, CountsTheEntriesOfTheFactor) {
  for (const FactorCase& c : factor_cases()) {
    SCOPED_TRACE(c.name);
    const FactorPlan plan = make_factor_plan(pattern_of(c.lower));
    std::vector<std::uint32_t> sorted = plan.order, all(sorted.size());
    std::ranges::sort(sorted);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_EQ(sorted, all);
    ASSERT_EQ(plan.order.size(), static_cast<std::size_t>(c.lower.cols()));
    if (c.lower.cols() == 0) continue;
    const SparseMatrix factor = factor_in_order(c.lower, plan.order);
    EXPECT_EQ(plan.nonzeros, static_cast<double>(factor.nonZeros()));
    double operations = 0;
    for (Eigen::Index k = 0; k < factor.cols(); ++k) {
      const double entries = factor.col(k).nonZeros();
      operations += entries * entries;
    }
    EXPECT_EQ(plan.operations, operations);
  }
}

TEST(FactorPlan, FrontsHaveTheRowsOfTheFactor) {
  for (const FactorCase& c : factor_cases()) {
    SCOPED_TRACE(c.name);
    const FactorPlan plan = make_factor_plan(pattern_of(c.lower));
    if (c.lower.cols() == 0) continue;
    const SparseMatrix factor = factor_in_order(c.lower, plan.order);
    std::uint32_t pivots = 0;
    double stored = 0;
    for (const Front& front : plan.fronts) {
      EXPECT_EQ(front.first, pivots);
      pivots += front.pivots;
      stored += static_cast<double>(front.panel_size());
      const std::span rows = std::span(plan.rows).subspan(front.rows, front.below);
      EXPECT_TRUE(std::ranges::is_sorted(rows));
      for (std::uint32_t k = front.first; k < pivots; ++k)
        for (SparseMatrix::InnerIterator it(factor, k); it; ++it)
          ASSERT_TRUE(it.row() < pivots ||
                      std::ranges::binary_search(rows, static_cast<std::uint32_t>(it.row())));
    }
    EXPECT_EQ(pivots, plan.order.size());
    EXPECT_EQ(stored, static_cast<double>(plan.factor_size));
    EXPECT_EQ(plan.entries.size(), static_cast<std::size_t>(c.lower.nonZeros()));
  }
}

/// Memory of update matrices that live at one time, found by running the schedule.
TEST(FactorPlan, UpdateMatricesDoNotOverlap) {
  for (const FactorCase& c : factor_cases()) {
    SCOPED_TRACE(c.name);
    const FactorPlan plan = make_factor_plan(pattern_of(c.lower));
    std::vector<std::uint32_t> owner(plan.workspace_size, runtime::kNoFront);
    std::vector<char> done(plan.fronts.size());
    const auto each_number = [&](std::uint32_t f, const auto& visit) {
      const Front& front = plan.fronts[f];
      for (std::uint64_t k = 0; k < front.update_size(); ++k) visit(owner[front.update + k]);
    };
    const auto take = [&](std::uint32_t f) {
      each_number(f, [&](std::uint32_t& at) {
        ASSERT_EQ(at, runtime::kNoFront);
        at = f;
      });
      for (const std::uint32_t child :
           std::span(plan.children)
               .subspan(plan.fronts[f].children,
                        plan.fronts[f].children_end - plan.fronts[f].children))
        ASSERT_TRUE(done[child]);
    };
    const auto finish = [&](std::uint32_t f) {
      done[f] = 1;
      for (std::uint32_t k = plan.fronts[f].children; k < plan.fronts[f].children_end; ++k)
        each_number(plan.children[k], [&](std::uint32_t& at) {
          ASSERT_EQ(at, plan.children[k]);
          at = runtime::kNoFront;
        });
    };
    for (const FactorPlan::Task& task : plan.tasks) {
      for (std::uint32_t f = task.begin; f < task.end; ++f) {
        take(f);
        finish(f);
      }
    }
    for (std::size_t l = 0; l + 1 < plan.level_starts.size(); ++l) {
      const std::span level =
          std::span(plan.level_fronts)
              .subspan(plan.level_starts[l], plan.level_starts[l + 1] - plan.level_starts[l]);
      for (const std::uint32_t f : level) take(f);
      for (const std::uint32_t f : level) finish(f);
    }
    EXPECT_EQ(std::ranges::count(done, 1), std::ssize(plan.fronts));
  }
}

TEST(FactorPlan, IsAFunctionOfThePattern) {
  const SparseMatrix lower = random_blocks(300, 700, 6, 11);
  const FactorPlan a = make_factor_plan(pattern_of(lower)), b = make_factor_plan(pattern_of(lower));
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.places, b.places);
  EXPECT_EQ(a.workspace_size, b.workspace_size);
}

}  // namespace
}  // namespace topograd::test
