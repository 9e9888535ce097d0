// The sparse factorisation on a device against Eigen's, on many structures.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../runtime/vulkan/linear/device_factor.hpp"
#include "../../support/validation.hpp"
#include "factor_matrices.hpp"

#include <cstdlib>
#include <limits>

namespace topograd::test {
namespace {

using runtime::AdmittedPivots;
using runtime::EngineOptions;
using runtime::FactorEnd;
using runtime::FactorReport;
using runtime::SolveReport;
using runtime::vulkan::HostMatrixFactor;

constexpr runtime::PivotRule kIndefinite = {.admitted = AdmittedPivots::nonzero};

class VulkanFactor : public VulkanTest {
 protected:
  static HostMatrixFactor factor_of(const SparseMatrix& lower, const EngineOptions& options) {
    return {pattern_of(lower), make_factor_plan(pattern_of(lower)), options};
  }
  static Vector solve(HostMatrixFactor& factor, const Vector& right) {
    Vector out(right.size());
    solve(factor, right, out);
    return out;
  }
  static SolveReport solve(HostMatrixFactor& factor, const Vector& right, Vector& x) {
    x.resize(right.size());
    return factor.solve({right.data(), static_cast<std::size_t>(right.size())},
                        {x.data(), static_cast<std::size_t>(x.size())});
  }
};

/// In f32, too: solutions are refined with residuals in f64.
TEST_F(VulkanFactor, SolvesEveryStructure) {
  constexpr double kBound = 4 * std::numeric_limits<double>::epsilon();
  for (const auto precision : precisions()) {
    for (const FactorCase& c : factor_cases()) {
      SCOPED_TRACE(c.name + " " + std::string(codegen::name(precision)));
      HostMatrixFactor factor = factor_of(c.lower, {.precision = precision});
      ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
      if (c.lower.cols() == 0) continue;
      const Vector b = right_of(c.lower);
      Vector x;
      const SolveReport solved = solve(factor, b, x);
      EXPECT_TRUE(solved.accurate);
      EXPECT_LE(backward_error(c.lower, b, x), kBound);
      if (c.lower.cols() > 1) {
        EXPECT_EQ(solved.refinements > 0, precision == codegen::Precision::f32);
      }
      const SparseMatrix other = 4 * c.lower;
      ASSERT_EQ(factor.factor(values_of(other)).end, FactorEnd::complete);
      EXPECT_EQ(4 * solve(factor, b), x);  // a power of two changes exponents alone
    }
  }
}

/// Cases of a sweep: a tenth of them where the device is masked, which changes kernels and not
/// numbers.
int cases(int all) { return std::getenv("TOPOGRAD_MASK") == nullptr ? all : all / 10; }

TEST_F(VulkanFactor, BitsAreTheSameInEveryRun) {
  for (const auto precision : precisions()) {
    for (const SparseMatrix& lower : {random_blocks(60, 140, 16, 3), blocks_that_meet({100}, {})}) {
      const Vector b = right_of(lower);
      HostMatrixFactor factor = factor_of(lower, {.precision = precision});
      ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
      const Vector x = solve(factor, b);
      for (int run = 1; run < cases(100); ++run) {
        ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
        ASSERT_EQ(solve(factor, b), x) << run;
      }
    }
  }
}

TEST_F(VulkanFactor, IsAsAccurateAsPeers) {
  for (const auto precision : precisions()) {
    for (int k = 0; k < cases(200); ++k) {
      const auto seed = static_cast<std::uint32_t>(k);
      SCOPED_TRACE(seed);
      const std::uint32_t count = 20 + seed;
      const SparseMatrix lower = random_blocks(count, count * (1 + seed % 4), 1 + seed % 7, seed);
      HostMatrixFactor factor = factor_of(lower, {.precision = precision});
      ASSERT_EQ(factor.factor(values_of(lower)).end, FactorEnd::complete);
      const Vector b = right_of(lower);
      EXPECT_LE(backward_error(lower, b, solve(factor, b)), bound_by_peers(lower, b));
    }
  }
}

TEST_F(VulkanFactor, RefusesMatricesThatAreNotPositiveDefinite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Row {
    double diagonal;
    FactorEnd end;
  };
  const Row rows[] = {{-1, FactorEnd::not_positive},
                      {0, FactorEnd::not_positive},
                      {kNan, FactorEnd::not_finite},
                      {kInfinity, FactorEnd::not_finite}};
  for (const auto precision : precisions()) {
    for (const FactorCase& c : factor_cases()) {
      if (c.lower.cols() == 0) continue;
      HostMatrixFactor factor = factor_of(c.lower, {.precision = precision});
      for (const Row& row : rows) {
        const Eigen::Index at = c.lower.cols() / 2;
        SCOPED_TRACE(c.name + " " + std::to_string(row.diagonal));
        SparseMatrix broken = c.lower;
        broken.coeffRef(at, at) = row.diagonal;
        const FactorReport report = factor.factor(values_of(broken));
        EXPECT_EQ(report.end, row.end);
        EXPECT_EQ(report.column, at);
      }
      ASSERT_EQ(factor.factor(values_of(c.lower)).end, FactorEnd::complete);
    }
  }
}

/// The difference of neighbours, which has no diagonal of its own: the last pivot is exactly zero.
TEST_F(VulkanFactor, RefusesSingularMatricesAndEmptyRows) {
  SparseMatrix differences(4, 4), empty(3, 3);
  for (int k = 0; k < 4; ++k) differences.insert(k, k) = k == 0 || k == 3 ? 1 : 2;
  for (int k = 0; k < 3; ++k) differences.insert(k + 1, k) = -1;
  differences.makeCompressed();
  empty.insert(0, 0) = 1;
  empty.insert(2, 2) = 1;
  empty.makeCompressed();
  for (const auto precision : precisions()) {
    EXPECT_EQ(factor_of(differences, {.precision = precision}).factor(values_of(differences)).end,
              FactorEnd::not_positive);
    const FactorReport report = factor_of(empty, {.precision = precision}).factor(values_of(empty));
    EXPECT_EQ(report.end, FactorEnd::not_positive);
    EXPECT_EQ(report.column, 1U);
    EXPECT_EQ(factor_of(empty, {.precision = precision}).factor(values_of(empty), {1e-15}).vanished,
              1U);
  }
}

TEST_F(VulkanFactor, LeavesOutPivotsThatVanish) {
  for (const auto precision : precisions()) {
    const double epsilon = precision == codegen::Precision::f32
                               ? std::numeric_limits<float>::epsilon()
                               : std::numeric_limits<double>::epsilon();
    for (const SingularCase& c : singular_cases()) {
      SCOPED_TRACE(c.name + " " + std::string(codegen::name(precision)));
      const runtime::PivotRule rule = c.rule(epsilon);
      HostMatrixFactor factor = factor_of(c.lower, {.precision = precision});
      const FactorReport report = factor.factor(values_of(c.lower), rule);
      ASSERT_EQ(report.end, FactorEnd::complete);
      EXPECT_EQ(report.vanished, c.deficiency);
      const Vector b = c.right(), x = solve(factor, b);
      EXPECT_LE(backward_error(c.lower, b, x), 1e-14);
      const SparseMatrix regular = c.regular();
      factor.factor(values_of(regular));
      const Vector expected = solve(factor, b);
      EXPECT_EQ(factor.factor(values_of(regular), rule).vanished, 0u);
      EXPECT_EQ(solve(factor, b), expected);
      EXPECT_EQ(factor.factor(values_of(c.indefinite()), rule).end, FactorEnd::not_positive);
    }
  }
}

TEST_F(VulkanFactor, TakesTheMemoryThatThePlanPredicts) {
  const SparseMatrix lower = random_blocks(900, 2700, 3, 5);
  for (const auto precision : precisions()) {
    const HostMatrixFactor factor = factor_of(lower, {.precision = precision});
    const auto predicted = static_cast<double>(factor.predicted_bytes());
    EXPECT_NEAR(static_cast<double>(factor.bytes()), predicted, 0.02 * predicted);
  }
}

/// The same bits as in one range, where panels, update matrices and entries are bound by pieces.
TEST_F(VulkanFactor, BindsWhatIsLargerThanARangeByPieces) {
  constexpr std::uint64_t kRange = 40'000;  // numbers
  const SparseMatrix lower = blocks_that_meet(std::vector<std::uint32_t>(1600, 3), grid(40, 40));
  const Vector b = right_of(lower);
  for (const auto precision : precisions()) {
    SCOPED_TRACE(codegen::name(precision));
    HostMatrixFactor whole = factor_of(lower, {.precision = precision});
    ASSERT_EQ(whole.factor(values_of(lower)).end, FactorEnd::complete);
    const Vector x = solve(whole, b);
    const std::uint64_t number = precision == codegen::Precision::f32 ? 4 : 8;
    HostMatrixFactor pieces =
        factor_of(lower, {.precision = precision, .max_storage_buffer_range = kRange * number});
    EXPECT_GT(pieces.bytes(), 4 * kRange * number);
    EXPECT_GT(pieces.dispatches(), whole.dispatches());
    ASSERT_EQ(pieces.factor(values_of(lower)).end, FactorEnd::complete);
    EXPECT_EQ(solve(pieces, b), x);
  }
}

TEST_F(VulkanFactor, RefusesWhatDoesNotFitTheDevice) {
  const SparseMatrix lower = blocks_that_meet({330}, {});
  try {
    factor_of(lower, {.precision = codegen::Precision::f32, .max_storage_buffer_range = 65536});
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
  }
}

/// [H Aᵀ; A −C] in any order: no pivot is zero, and the inertia is known.
TEST_F(VulkanFactor, FactorisesQuasidefiniteMatrices) {
  for (const auto precision : precisions()) {
    for (const FactorCase& from : factor_cases()) {
      SCOPED_TRACE(from.name + " " + std::string(codegen::name(precision)));
      const QuasidefiniteCase c = quasidefinite(from);
      const auto unknowns = static_cast<std::uint64_t>(c.lower.cols());
      HostMatrixFactor factor = factor_of(c.lower, {.precision = precision});
      const FactorReport report = factor.factor(values_of(c.lower), kIndefinite);
      ASSERT_EQ(report.end, FactorEnd::complete);
      EXPECT_EQ(report.negative, c.negative);
      EXPECT_EQ(report.positive, unknowns - c.negative);
      EXPECT_EQ(report.vanished, 0u);
      if (unknowns == 0) continue;
      const Vector b = right_of(c.lower);
      Vector x;
      EXPECT_TRUE(solve(factor, b, x).accurate);
      EXPECT_LE(backward_error(c.lower, b, x), 4 * std::numeric_limits<double>::epsilon());
      // Damped steps refuse such matrices.
      const FactorReport strict = factor.factor(values_of(c.lower));
      EXPECT_EQ(strict.end, c.negative > 0 ? FactorEnd::not_positive : FactorEnd::complete);
      // What a factor admits does not change a positive definite matrix.
      factor.factor(values_of(from.lower));
      const Vector expected = solve(factor, b);
      EXPECT_EQ(factor.factor(values_of(from.lower), kIndefinite).negative, 0u);
      EXPECT_EQ(solve(factor, b), expected);
    }
  }
}

TEST_F(VulkanFactor, FindsTheInertiaOfIndefiniteMatrices) {
  for (const auto precision : precisions()) {
    for (int k = 0; k < cases(40); ++k) {
      const auto seed = static_cast<std::uint32_t>(k);
      SCOPED_TRACE(seed);
      const std::uint32_t count = 10 + seed / 2;
      const SparseMatrix lower = shifted(random_blocks(count, 2 * count, 1 + seed % 6, seed));
      HostMatrixFactor factor = factor_of(lower, {.precision = precision});
      const FactorReport report = factor.factor(values_of(lower), kIndefinite);
      ASSERT_EQ(report.end, FactorEnd::complete);
      const Vector b = right_of(lower);
      Vector x;
      const SolveReport solved = solve(factor, b, x);
      EXPECT_TRUE(x.allFinite());
      EXPECT_TRUE(solved.accurate);
      EXPECT_EQ(report.negative, negative_eigenvalues(lower));
      EXPECT_LE(backward_error(lower, b, x), bound_by_dense_peer(lower, b));
    }
  }
}

TEST_F(VulkanFactor, EndsInATypedResultWherePivotsAreNoUse) {
  SparseMatrix swap(2, 2);
  swap.insert(0, 0) = 0;
  swap.insert(1, 0) = 1;
  swap.insert(1, 1) = 0;
  swap.makeCompressed();
  for (const auto precision : precisions()) {
    SCOPED_TRACE(codegen::name(precision));
    EXPECT_EQ(factor_of(swap, {.precision = precision}).factor(values_of(swap), kIndefinite).end,
              FactorEnd::not_positive);
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (const double diagonal : {kNan, -std::numeric_limits<double>::infinity()}) {
      SparseMatrix broken = blocks_that_meet({50}, {});
      broken.coeffRef(37, 37) = diagonal;
      const FactorReport report =
          factor_of(broken, {.precision = precision}).factor(values_of(broken), kIndefinite);
      EXPECT_EQ(report.end, FactorEnd::not_finite);
      EXPECT_EQ(report.column, 37u);
    }
    const SparseMatrix lower = with_growth();
    HostMatrixFactor factor = factor_of(lower, {.precision = precision});
    const FactorReport report = factor.factor(values_of(lower), kIndefinite);
    if (report.end != FactorEnd::complete) {  // numbers cancelled
      EXPECT_EQ(report.end, FactorEnd::not_positive);
      continue;
    }
    Vector x;
    EXPECT_FALSE(solve(factor, right_of(lower), x).accurate);
    EXPECT_TRUE(x.allFinite());
  }
}

TEST_F(VulkanFactor, BitsOfIndefiniteMatricesAreTheSameInEveryRun) {
  const SparseMatrix lower = quasidefinite({"", random_blocks(60, 140, 16, 3)}).lower;
  const Vector b = right_of(lower);
  for (const auto precision : precisions()) {
    HostMatrixFactor factor = factor_of(lower, {.precision = precision});
    ASSERT_EQ(factor.factor(values_of(lower), kIndefinite).end, FactorEnd::complete);
    const Vector x = solve(factor, b);
    for (int run = 1; run < cases(20); ++run) {
      ASSERT_EQ(factor.factor(values_of(lower), kIndefinite).end, FactorEnd::complete);
      ASSERT_EQ(solve(factor, b), x) << run;
    }
  }
}

}  // namespace
}  // namespace topograd::test
