// Entries of inverses by Takahashi's recurrence against dense inverses in more digits.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/factor/selected_inverse.hpp"
#include "factor_matrices.hpp"

#include <Eigen/Dense>

#include <cmath>

namespace topograd::test {
namespace {

using runtime::FactorEnd;
using runtime::cpu::SelectedInverse;
using runtime::cpu::SparseFactor;
using WideMatrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

WideMatrix inverse_of(const SparseMatrix& lower) {
  const WideMatrix half = Eigen::MatrixXd(lower).cast<long double>();
  const WideMatrix full = half.selfadjointView<Eigen::Lower>();
  return full.ldlt().solve(WideMatrix::Identity(full.rows(), full.cols()));
}

constexpr std::uint32_t kMostColumns = 400;  // of matrices that are inverted densely here

TEST(SelectedInverse, IsTheInverseInThePattern) {
  for (const FactorCase& c : factor_cases()) {
    const auto n = static_cast<std::uint32_t>(c.lower.cols());
    if (n > kMostColumns) continue;
    SCOPED_TRACE(c.name);
    SparseFactor factor(make_factor_plan(pattern_of(c.lower)), 2);
    ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
    SelectedInverse selected(factor);
    for (Eigen::Index k = 0; k < c.lower.outerSize(); ++k)
      for (SparseMatrix::InnerIterator it(c.lower, k); it; ++it)
        ASSERT_TRUE(selected.contains(static_cast<std::uint32_t>(it.row()),
                                      static_cast<std::uint32_t>(it.col())));
    for (std::uint32_t r = 0; r < n; ++r)
      for (std::uint32_t k = 0; k < n; ++k)
        if (selected.contains(r, k)) selected.request(r, k);
    selected.compute();
    const WideMatrix exact = inverse_of(c.lower);
    for (std::uint32_t r = 0; r < n; ++r) {
      for (std::uint32_t k = 0; k < n; ++k) {
        ASSERT_EQ(selected.contains(r, k), selected.contains(k, r));
        if (!selected.contains(r, k)) continue;
        const double scale = std::sqrt(static_cast<double>(exact(r, r) * exact(k, k)));
        ASSERT_NEAR(selected.entry(r, k), static_cast<double>(exact(r, k)), 1e-13 * scale)
            << r << ", " << k;
        ASSERT_EQ(selected.entry(r, k), selected.entry(k, r));
      }
    }
  }
}

/// Any order of requests, and any number of threads.
TEST(SelectedInverse, BitsDoNotDependOnWhatIsAsked) {
  const SparseMatrix lower = random_blocks(120, 300, 5, 4);
  const auto n = static_cast<std::uint32_t>(lower.cols());
  SparseFactor factor(make_factor_plan(pattern_of(lower)), 1);
  ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
  SelectedInverse all(factor);
  for (std::uint32_t k = 0; k < n; ++k) all.request(k, k);
  all.compute();
  for (const int threads : {1, 2, 4}) {
    SparseFactor other(make_factor_plan(pattern_of(lower)), threads);
    ASSERT_EQ(other.factor(values_of(lower)).end, FactorEnd::complete);
    SelectedInverse one(other);
    for (std::uint32_t k = n; k-- > 0;) {
      one.request(k, k);
      if (k % 7 == 0) one.compute();
    }
    one.compute();
    for (std::uint32_t k = 0; k < n; ++k) ASSERT_EQ(one.entry(k, k), all.entry(k, k)) << k;
  }
}

/// Entries inside and outside of the pattern, with the same bits whatever else is asked for.
TEST(SelectedInverse, SolvesForOtherEntries) {
  for (const FactorCase& c : factor_cases()) {
    const auto n = static_cast<std::uint32_t>(c.lower.cols());
    if (n < 2 || n > kMostColumns) continue;
    SCOPED_TRACE(c.name);
    SparseFactor factor(make_factor_plan(pattern_of(c.lower)), 1);
    ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
    const SelectedInverse selected(factor);
    const WideMatrix exact = inverse_of(c.lower);
    std::vector<std::uint32_t> rows(n);
    for (std::uint32_t k = 0; k < n; ++k) rows[k] = n - 1 - k;
    for (const std::uint32_t first : {0U, n / 3, n - 2}) {
      const Eigen::MatrixXd all = selected.solve(rows, first, 2);
      for (std::uint32_t k = 0; k < n; ++k) {
        for (std::uint32_t j = 0; j < 2; ++j) {
          const long double scale =
              std::sqrt(exact(rows[k], rows[k]) * exact(first + j, first + j));
          ASSERT_NEAR(all(k, j), static_cast<double>(exact(rows[k], first + j)),
                      1e-13 * static_cast<double>(scale));
        }
      }
      const Eigen::MatrixXd one = selected.solve(std::span(rows).subspan(n / 2, 1), first, 2);
      EXPECT_EQ(one, all.row(n / 2));
    }
  }
}

TEST(SelectedInverse, LeavesOutWhatIsNotInThePattern) {
  const SparseMatrix lower = blocks_that_meet({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {});
  SparseFactor factor(make_factor_plan(pattern_of(lower)), 1);
  ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
  const SelectedInverse selected(factor);
  int outside = 0;
  for (std::uint32_t r = 0; r < 12; ++r)
    for (std::uint32_t k = 0; k < 12; ++k) outside += selected.contains(r, k) ? 0 : 1;
  EXPECT_EQ(outside, 132) << "a diagonal matrix";
}

}  // namespace
}  // namespace topograd::test
