// Plans of sparse factorisations against Eigen's symbolic analysis.
#include <gtest/gtest.h>

#include "../../../runtime/factor/factor_plan.hpp"
#include "../../../runtime/factor/fill_order.hpp"
#include "factor_matrices.hpp"

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCholesky>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

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

/// Blocks of the pattern as a symmetric matrix, column by column: adjacent ones that are joined
/// and have the same other rows.
std::vector<std::uint32_t> blocks_of(const std::vector<std::vector<char>>& full) {
  const std::size_t n = full.size();
  std::vector<std::uint32_t> first;
  for (std::size_t c = 0; c < n; ++c) {
    bool same = c > 0 && full[c][c - 1] != 0;
    for (std::size_t r = 0; same && r < n; ++r)
      same = r == c || r == c - 1 || full[c][r] == full[c - 1][r];
    if (!same) first.push_back(static_cast<std::uint32_t>(c));
  }
  first.push_back(static_cast<std::uint32_t>(n));
  return first;
}

TEST(BlockGraph, FindsColumnsOfEqualPattern) {
  std::mt19937 random(9);
  for (int k = 0; k < 60; ++k) {
    SCOPED_TRACE(k);
    const SparseMatrix lower = random_blocks(8, k % 20, 4, static_cast<std::uint32_t>(k));
    // Without some entries, some of the diagonal's among them.
    const auto n = static_cast<std::size_t>(lower.cols());
    std::vector<std::vector<char>> full(n, std::vector<char>(n));
    std::vector<int> starts{0}, rows;
    for (int c = 0; c < lower.cols(); ++c) {
      for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
        const auto r = static_cast<std::size_t>(it.row());
        if (random() % (it.row() == c ? 3 : 12) == 0) continue;
        rows.push_back(static_cast<int>(it.row()));
        full[r][static_cast<std::size_t>(c)] = full[static_cast<std::size_t>(c)][r] = 1;
      }
      starts.push_back(static_cast<int>(rows.size()));
    }
    const runtime::LowerPattern pattern{starts, rows};
    const runtime::BlockGraph graph(pattern);
    ASSERT_EQ(graph.first, blocks_of(full));
    for (std::uint32_t b = 0; b < graph.size(); ++b) {
      std::vector<std::uint32_t> expected;
      for (std::uint32_t o = 0; o < graph.size(); ++o)
        if (o != b && full[graph.first[b]][graph.first[o]] != 0) expected.push_back(o);
      const auto found = graph.neighbours(b);
      EXPECT_EQ(std::vector<std::uint32_t>(found.begin(), found.end()), expected);
    }
    // Every entry has one place, in the column that is eliminated first.
    const FactorPlan plan = make_factor_plan(pattern);
    std::vector<std::uint32_t> place(n);
    for (std::uint32_t p = 0; p < n; ++p) place[plan.order[p]] = p;
    std::vector<int> column(rows.size());
    for (int c = 0; c < lower.cols(); ++c)
      std::fill(column.begin() + starts[static_cast<std::size_t>(c)],
                column.begin() + starts[static_cast<std::size_t>(c) + 1], c);
    std::vector<int> seen(rows.size());
    for (const Front& front : plan.fronts) {
      for (std::uint32_t e = front.entries; e < front.entries_end; ++e) {
        const auto [value, at] = plan.entries[e];
        ++seen[value];
        const std::uint32_t tile = at / (runtime::kTile * front.pivots);
        const std::uint32_t within = at % (runtime::kTile * front.pivots);
        const std::uint32_t row = tile * runtime::kTile + within % runtime::kTile;
        const std::uint32_t a = place[static_cast<std::uint32_t>(rows[value])];
        const std::uint32_t b = place[static_cast<std::uint32_t>(column[value])];
        EXPECT_EQ(front.first + within / runtime::kTile, std::min(a, b));
        EXPECT_EQ(row < front.pivot_rows() ? front.first + row
                                           : plan.rows[front.rows + row - front.pivot_rows()],
                  std::max(a, b));
      }
    }
    EXPECT_EQ(seen, std::vector<int>(rows.size(), 1));
  }
}

/// Eigen's order of the same blocks.
std::vector<std::uint32_t> order_of_eigen(const runtime::BlockGraph& graph) {
  std::vector<Eigen::Triplet<double>> entries;
  for (std::uint32_t b = 0; b < graph.size(); ++b) {
    entries.emplace_back(b, b, 1);
    for (const std::uint32_t o : graph.neighbours(b)) entries.emplace_back(b, o, 1);
  }
  SparseMatrix matrix(graph.size(), graph.size());
  matrix.setFromTriplets(entries.begin(), entries.end());
  Eigen::AMDOrdering<int>::PermutationType order;
  Eigen::AMDOrdering<int>()(matrix.selfadjointView<Eigen::Lower>(), order);
  return {order.indices().begin(), order.indices().end()};
}

TEST(FillOrder, IsThatOfEigen) {
  std::vector<FactorCase> cases = factor_cases();
  cases.push_back(
      {"a wide grid", blocks_that_meet(std::vector<std::uint32_t>(9000, 1), grid(90, 100))});
  cases.push_back({"many neighbours", random_blocks(2000, 20000, 1, 4)});
  for (const FactorCase& c : cases) {
    SCOPED_TRACE(c.name);
    if (c.lower.cols() == 0) continue;
    const runtime::BlockGraph graph(pattern_of(c.lower));
    EXPECT_EQ(runtime::fill_reducing_order(graph), order_of_eigen(graph));
  }
}

TEST(FactorPlan, IsAFunctionOfThePattern) {
  const SparseMatrix lower = random_blocks(300, 700, 6, 11);
  const FactorPlan a = make_factor_plan(pattern_of(lower)), b = make_factor_plan(pattern_of(lower));
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.parent_rows, b.parent_rows);
  EXPECT_EQ(a.workspace_size, b.workspace_size);
}

}  // namespace
}  // namespace topograd::test
