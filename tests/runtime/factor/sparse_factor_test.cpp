// The sparse factorisation on the CPU against Eigen's, on many structures.
#include <gtest/gtest.h>

#include "../../../runtime/cpu/factor/sparse_factor.hpp"
#include "../../../runtime/factor/refinement.hpp"
#include "factor_matrices.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <limits>

namespace topograd::test {
namespace {

using runtime::AdmittedPivots;
using runtime::FactorEnd;
using runtime::FactorReport;
using runtime::SolveReport;
using runtime::cpu::SparseFactor;

constexpr runtime::PivotRule kIndefinite = {.admitted = AdmittedPivots::nonzero};

SparseFactor factor_of(const SparseMatrix& lower, int threads = 0,
                       const runtime::cpu::FrontKernels& kernels = runtime::cpu::front_kernels()) {
  return {make_factor_plan(pattern_of(lower)), threads, kernels};
}

Vector solve(const SparseFactor& factor, const Vector& right) {
  Vector out(right.size());
  factor.solve({right.data(), static_cast<std::size_t>(right.size())},
               {out.data(), static_cast<std::size_t>(out.size())});
  return out;
}

SolveReport solve_refined(const SparseFactor& factor, const SparseMatrix& lower,
                          const Vector& right, Vector& x) {
  x.resize(right.size());
  return runtime::solve_refined(
      {pattern_of(lower), values_of(lower)}, {right.data(), static_cast<std::size_t>(right.size())},
      {x.data(), static_cast<std::size_t>(x.size())},
      [&](std::span<const double> b, std::span<double> solution) { factor.solve(b, solution); });
}

std::vector<const runtime::cpu::FrontKernels*> kernels_of(runtime::cpu::Bits bits) {
  std::vector<const runtime::cpu::FrontKernels*> out;
  for (const auto* k = runtime::cpu::all_front_kernels(bits); *k != nullptr; ++k) out.push_back(*k);
  return out;
}

TEST(SparseFactor, PortableBitsDoNotDependOnTheInstructionSet) {
  const auto all = kernels_of(runtime::cpu::Bits::portable);
  for (const FactorCase& c : factor_cases()) {
    SCOPED_TRACE(c.name);
    const Vector b = right_of(c.lower);
    SparseFactor first = factor_of(c.lower, 1, *all[0]);
    first.factor(values_of(c.lower));
    const Vector x = solve(first, b);
    for (const auto* kernels : all) {
      SparseFactor factor = factor_of(c.lower, 2, *kernels);
      factor.factor(values_of(c.lower));
      EXPECT_EQ(solve(factor, b), x);
    }
  }
}

TEST(SparseFactor, SolvesEveryStructure) {
  constexpr double kBound = 4 * std::numeric_limits<double>::epsilon();
  auto all = kernels_of(runtime::cpu::Bits::native);
  for (const auto* portable : kernels_of(runtime::cpu::Bits::portable)) all.push_back(portable);
  for (const auto* kernels : all) {
    for (const FactorCase& c : factor_cases()) {
      SCOPED_TRACE(c.name);
      SparseFactor factor = factor_of(c.lower, 0, *kernels);
      ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
      if (c.lower.cols() == 0) continue;
      const Vector b = right_of(c.lower), x = solve(factor, b);
      EXPECT_LE(backward_error(c.lower, b, x), kBound);
      const SparseMatrix other = 4 * c.lower;
      ASSERT_EQ(factor.factor(values_of(other)).end, FactorEnd::complete);
      EXPECT_EQ(4 * solve(factor, b), x);  // a power of two changes exponents alone
    }
  }
}

TEST(SparseFactor, BitsDoNotDependOnThreads) {
  for (const FactorCase& c : factor_cases()) {
    SCOPED_TRACE(c.name);
    const Vector b = right_of(c.lower);
    SparseFactor one = factor_of(c.lower, 1);
    one.factor(values_of(c.lower));
    const Vector x = solve(one, b);
    for (const int threads : {1, 2, 4}) {
      SparseFactor several = factor_of(c.lower, threads);
      for (int run = 0; run < 5; ++run) {
        several.factor(values_of(c.lower));
        ASSERT_EQ(solve(several, b), x) << threads;
      }
    }
  }
}

TEST(SparseFactor, IsAsAccurateAsPeers) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const std::uint32_t count = 20 + seed;
    SparseMatrix lower = random_blocks(count, count * (1 + seed % 4), 1 + seed % 7, seed);
    // Scales of unknowns that differ by up to eight digits.
    Vector scale(lower.cols());
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> exponent(-4, 4);
    for (double& s : scale) s = std::pow(10, exponent(random));
    lower = scale.asDiagonal() * lower * scale.asDiagonal();
    SparseFactor factor = factor_of(lower);
    ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
    const Vector b = right_of(lower);
    EXPECT_LE(backward_error(lower, b, solve(factor, b)), bound_by_peers(lower, b));
  }
}

TEST(SparseFactor, RefusesMatricesThatAreNotPositiveDefinite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Row {
    double diagonal;
    FactorEnd end;
  };
  const Row rows[] = {{-1, FactorEnd::not_positive},
                      {0, FactorEnd::not_positive},
                      {-kInfinity, FactorEnd::not_finite},
                      {kNan, FactorEnd::not_finite},
                      {kInfinity, FactorEnd::not_finite}};
  for (const FactorCase& c : factor_cases()) {
    if (c.lower.cols() == 0) continue;
    for (const Row& row : rows) {
      for (const Eigen::Index at : {Eigen::Index{0}, c.lower.cols() / 2, c.lower.cols() - 1}) {
        SCOPED_TRACE(c.name + " " + std::to_string(row.diagonal) + " " + std::to_string(at));
        SparseMatrix broken = c.lower;
        broken.coeffRef(at, at) = row.diagonal;
        SparseFactor factor = factor_of(broken, 1);
        const FactorReport report = factor.factor(values_of(broken));
        EXPECT_EQ(report.end, row.end);
        EXPECT_EQ(report.column, at);
        EXPECT_FALSE(report.pivot > 0 && std::isfinite(report.pivot));
        const FactorReport again = factor_of(broken, 4).factor(values_of(broken));
        EXPECT_EQ(again.column, report.column);
        ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
      }
    }
  }
}

/// The difference of neighbours, which has no diagonal of its own: the last pivot is exactly zero.
TEST(SparseFactor, RefusesSingularMatrices) {
  SparseMatrix lower(4, 4);
  for (int k = 0; k < 4; ++k) lower.insert(k, k) = k == 0 || k == 3 ? 1 : 2;
  for (int k = 0; k < 3; ++k) lower.insert(k + 1, k) = -1;
  lower.makeCompressed();
  const FactorReport report = factor_of(lower).factor(values_of(lower));
  EXPECT_EQ(report.end, FactorEnd::not_positive);
  EXPECT_EQ(report.pivot, 0);
}

TEST(SparseFactor, LeavesOutPivotsThatVanish) {
  for (const auto* kernels = runtime::cpu::all_front_kernels(); *kernels != nullptr; ++kernels) {
    for (const SingularCase& c : singular_cases()) {
      SCOPED_TRACE(c.name);
      const Vector b = c.right();
      SparseFactor one = factor_of(c.lower, 1, **kernels);
      const FactorReport report = one.factor(values_of(c.lower), c.rule());
      ASSERT_EQ(report.end, FactorEnd::complete);
      EXPECT_EQ(report.vanished, c.deficiency);
      const Vector x = solve(one, b);
      EXPECT_LE(backward_error(c.lower, b, x), 1e-14);
      for (const int threads : {2, 4}) {
        SparseFactor several = factor_of(c.lower, threads, **kernels);
        EXPECT_EQ(several.factor(values_of(c.lower), c.rule()).vanished, c.deficiency);
        EXPECT_EQ(solve(several, b), x);
      }
      // The rule changes nothing where no pivot vanishes.
      const SparseMatrix regular = c.regular();
      one.factor(values_of(regular));
      const Vector expected = solve(one, b);
      EXPECT_EQ(one.factor(values_of(regular), c.rule()).vanished, 0u);
      EXPECT_EQ(solve(one, b), expected);
      // A negative pivot is no vanishing one.
      EXPECT_EQ(one.factor(values_of(c.indefinite()), c.rule()).end, FactorEnd::not_positive);
    }
  }
}

TEST(SparseFactor, TakesAnEmptyRowForAPivotOfZero) {
  SparseMatrix lower(3, 3);
  lower.insert(0, 0) = 1;
  lower.insert(2, 2) = 1;
  lower.makeCompressed();
  const FactorReport report = factor_of(lower).factor(values_of(lower));
  EXPECT_EQ(report.end, FactorEnd::not_positive);
  EXPECT_EQ(report.column, 1U);
  EXPECT_EQ(factor_of(lower).factor(values_of(lower), {1e-15}).vanished, 1U);
}

/// [H Aᵀ; A −C] in any order: no pivot is zero, and the inertia is known.
TEST(SparseFactor, FactorisesQuasidefiniteMatrices) {
  for (const auto* kernels = runtime::cpu::all_front_kernels(); *kernels != nullptr; ++kernels) {
    for (const FactorCase& from : factor_cases()) {
      SCOPED_TRACE(from.name);
      const QuasidefiniteCase c = quasidefinite(from);
      const auto unknowns = static_cast<std::uint64_t>(c.lower.cols());
      SparseFactor factor = factor_of(c.lower, 0, **kernels);
      const FactorReport report = factor.factor(values_of(c.lower), kIndefinite);
      ASSERT_EQ(report.end, FactorEnd::complete);
      EXPECT_EQ(report.negative, c.negative);
      EXPECT_EQ(report.positive, unknowns - c.negative);
      EXPECT_EQ(report.vanished, 0u);
      if (unknowns == 0) continue;
      EXPECT_EQ(negative_eigenvalues(c.lower), c.negative);
      const Vector b = right_of(c.lower), x = solve(factor, b);
      EXPECT_LE(backward_error(c.lower, b, x), 4 * std::numeric_limits<double>::epsilon());
      if (unknowns <= 400) {
        EXPECT_LE(backward_error(c.lower, b, x), bound_by_dense_peer(c.lower, b));
      }
      // Damped steps refuse such matrices.
      const FactorReport strict = factor.factor(values_of(c.lower));
      EXPECT_EQ(strict.end, c.negative > 0 ? FactorEnd::not_positive : FactorEnd::complete);
    }
  }
}

/// Some growth is in these factors: refinement removes it.
TEST(SparseFactor, FindsTheInertiaOfIndefiniteMatrices) {
  for (const FactorCase& c : factor_cases()) {
    if (c.lower.cols() == 0) continue;
    SCOPED_TRACE(c.name);
    const SparseMatrix lower = shifted(c.lower);
    SparseFactor factor = factor_of(lower);
    const FactorReport report = factor.factor(values_of(lower), kIndefinite);
    ASSERT_EQ(report.end, FactorEnd::complete);
    EXPECT_GT(report.negative, 0u);
    EXPECT_EQ(report.negative, negative_eigenvalues(lower));
    EXPECT_EQ(report.positive + report.negative, static_cast<std::uint64_t>(lower.cols()));
    const Vector b = right_of(lower);
    Vector x;
    const SolveReport solved = solve_refined(factor, lower, b, x);
    EXPECT_TRUE(solved.accurate);
    EXPECT_LE(backward_error(lower, b, x), 4 * std::numeric_limits<double>::epsilon());
    EXPECT_NEAR(solved.backward_error, 0, 4 * std::numeric_limits<double>::epsilon());
  }
}

TEST(SparseFactor, RandomIndefiniteMatricesAreAsExactAsByPeers) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const std::uint32_t count = 10 + seed / 2;
    const SparseMatrix lower = shifted(random_blocks(count, 2 * count, 1 + seed % 6, seed));
    SparseFactor factor = factor_of(lower);
    const FactorReport report = factor.factor(values_of(lower), kIndefinite);
    ASSERT_EQ(report.end, FactorEnd::complete);
    EXPECT_EQ(report.negative, negative_eigenvalues(lower));
    const Vector b = right_of(lower);
    Vector x;
    EXPECT_TRUE(solve_refined(factor, lower, b, x).accurate);
    EXPECT_LE(backward_error(lower, b, x), bound_by_dense_peer(lower, b));
  }
}

TEST(SparseFactor, BitsOfIndefiniteMatricesDoNotDependOnThreads) {
  for (const FactorCase& from : factor_cases()) {
    SCOPED_TRACE(from.name);
    const SparseMatrix lower = quasidefinite(from).lower;
    const Vector b = right_of(lower);
    SparseFactor one = factor_of(lower, 1);
    one.factor(values_of(lower), kIndefinite);
    const Vector x = solve(one, b);
    for (const int threads : {2, 4}) {
      SparseFactor several = factor_of(lower, threads);
      for (int run = 0; run < 3; ++run) {
        several.factor(values_of(lower), kIndefinite);
        ASSERT_EQ(solve(several, b), x) << threads;
      }
    }
  }
}

/// A caller that admits negative pivots pays nothing where there are none.
TEST(SparseFactor, AdmittedPivotsDoNotChangePositiveDefiniteMatrices) {
  for (const auto* kernels = runtime::cpu::all_front_kernels(); *kernels != nullptr; ++kernels) {
    for (const FactorCase& c : factor_cases()) {
      SCOPED_TRACE(c.name);
      SparseFactor factor = factor_of(c.lower, 0, **kernels);
      const Vector b = right_of(c.lower);
      factor.factor(values_of(c.lower));
      const Vector x = solve(factor, b);
      EXPECT_EQ(factor.factor(values_of(c.lower), kIndefinite).negative, 0u);
      EXPECT_EQ(solve(factor, b), x);
    }
  }
}

TEST(SparseFactor, EndsInATypedResultWherePivotsAreNoUse) {
  // A pivot of zero whose column is not.
  SparseMatrix swap(2, 2);
  swap.insert(0, 0) = 0;
  swap.insert(1, 0) = 1;
  swap.insert(1, 1) = 0;
  swap.makeCompressed();
  const FactorReport zero = factor_of(swap).factor(values_of(swap), kIndefinite);
  EXPECT_EQ(zero.end, FactorEnd::not_positive);
  EXPECT_EQ(zero.pivot, 0);

  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double diagonal : {kNan, -std::numeric_limits<double>::infinity()}) {
    SparseMatrix broken = blocks_that_meet({20}, {});
    broken.coeffRef(7, 7) = diagonal;
    EXPECT_EQ(factor_of(broken).factor(values_of(broken), kIndefinite).end, FactorEnd::not_finite);
  }

  // Rounding leaves nothing of all but the first pivot.
  const SparseMatrix lower = with_growth();
  for (const auto* kernels = runtime::cpu::all_front_kernels(); *kernels != nullptr; ++kernels) {
    SparseFactor factor = factor_of(lower, 0, **kernels);
    const FactorReport report = factor.factor(values_of(lower), kIndefinite);
    if (report.end != FactorEnd::complete) {  // numbers cancelled
      EXPECT_EQ(report.end, FactorEnd::not_positive);
      continue;
    }
    const Vector b = right_of(lower);
    Vector x;
    const SolveReport solved = solve_refined(factor, lower, b, x);
    EXPECT_FALSE(solved.accurate);
    EXPECT_GT(solved.backward_error, 1e-12);
    EXPECT_TRUE(x.allFinite());
  }
}

/// [H Aᵀ; A 0] by a factor of [H Aᵀ; A −δ], whose pivots are nonzero in every order.
TEST(SparseFactor, RefinementTakesAShiftAway) {
  constexpr double kShift = 1e-8;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const SparseMatrix hessian = random_blocks(60, 120, 1 + seed % 6, seed);
    const auto unknowns = static_cast<int>(hessian.cols());
    const int rows = 10 + static_cast<int>(seed % 15), size = unknowns + rows;
    std::vector<Eigen::Triplet<double>> entries;
    for (int c = 0; c < unknowns; ++c)
      for (SparseMatrix::InnerIterator it(hessian, c); it; ++it)
        entries.emplace_back(static_cast<int>(it.row()), c, it.value());
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> number(-1, 1);
    for (int r = unknowns; r < size; ++r) {
      for (int k = 0; k < 3; ++k)
        entries.emplace_back(r, static_cast<int>(random() % static_cast<std::uint32_t>(unknowns)),
                             number(random));
      entries.emplace_back(r, r, 0.0);
    }
    SparseMatrix lower(size, size);
    lower.setFromTriplets(entries.begin(), entries.end());
    SparseMatrix near = lower;
    for (int r = unknowns; r < size; ++r) near.coeffRef(r, r) = -kShift;
    SparseFactor factor = factor_of(near);
    const FactorReport report = factor.factor(values_of(near), kIndefinite);
    ASSERT_EQ(report.end, FactorEnd::complete);
    EXPECT_EQ(report.positive, static_cast<std::uint64_t>(unknowns));
    EXPECT_EQ(report.negative, static_cast<std::uint64_t>(rows));
    const Vector b = right_of(lower);
    EXPECT_GT(backward_error(lower, b, solve(factor, b)), 1e-13);
    Vector x;
    const SolveReport solved = solve_refined(factor, lower, b, x);
    EXPECT_TRUE(solved.accurate);
    EXPECT_GT(solved.refinements, 0);
    EXPECT_LE(backward_error(lower, b, x), bound_by_dense_peer(lower, b));
  }
}

TEST(SparseFactor, LeavesOutPivotsThatVanishAmongNegativeOnes) {
  for (const SingularCase& c : singular_cases()) {
    SCOPED_TRACE(c.name);
    const SparseMatrix lower = -c.lower;
    runtime::PivotRule rule = c.rule();
    rule.admitted = AdmittedPivots::nonzero;
    SparseFactor factor = factor_of(lower);
    const FactorReport report = factor.factor(values_of(lower), rule);
    ASSERT_EQ(report.end, FactorEnd::complete);
    EXPECT_EQ(report.vanished, c.deficiency);
    EXPECT_EQ(report.positive, 0u);
    EXPECT_EQ(report.negative, static_cast<std::uint64_t>(lower.cols()) - c.deficiency);
    const Vector b = c.right();
    EXPECT_LE(backward_error(lower, b, solve(factor, b)), 1e-14);
  }
}

}  // namespace
}  // namespace topograd::test
