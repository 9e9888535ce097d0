// Symmetric positive definite matrices of many structures, for tests of factorisations.
#pragma once

#include "../../../runtime/factor/factor_plan.hpp"
#include "../../../runtime/factor/refinement.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#ifdef TOPOGRAD_CHOLMOD
#include <Eigen/CholmodSupport>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {

using SparseMatrix = Eigen::SparseMatrix<double>;
using Vector = Eigen::VectorXd;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct FactorCase {
  std::string name;
  SparseMatrix lower;  ///< triangle with the diagonal
};

inline runtime::LowerPattern pattern_of(const SparseMatrix& lower) {
  return {{lower.outerIndexPtr(), static_cast<std::size_t>(lower.cols()) + 1},
          {lower.innerIndexPtr(), static_cast<std::size_t>(lower.nonZeros())}};
}

inline std::span<const double> values_of(const SparseMatrix& lower) {
  return {lower.valuePtr(), static_cast<std::size_t>(lower.nonZeros())};
}

inline Vector right_of(const SparseMatrix& lower) { return Vector::LinSpaced(lower.cols(), -1, 2); }

/// ‖b − Ax‖ / (‖A‖ ‖x‖), with the residual in more digits.
inline double backward_error(const SparseMatrix& lower, const Vector& right, const Vector& x) {
  using Wide = Eigen::Matrix<long double, Eigen::Dynamic, 1>;
  Wide residual = right.cast<long double>(), sums = Wide::Zero(right.size());
  for (Eigen::Index c = 0; c < lower.cols(); ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const long double a = it.value();
      residual[it.row()] -= a * x[c];
      sums[it.row()] += std::abs(a);
      if (it.row() == c) continue;
      residual[c] -= a * x[it.row()];
      sums[c] += std::abs(a);
    }
  }
  const long double scale = sums.maxCoeff() * x.cast<long double>().lpNorm<Eigen::Infinity>();
  return static_cast<double>(residual.lpNorm<Eigen::Infinity>() / scale);
}

/// Four times the backward error of Eigen's factorisation, and of CHOLMOD's where it was built in,
/// or of rounding if that is larger.
inline double bound_by_peers(const SparseMatrix& lower, const Vector& right) {
  const Eigen::SimplicialLLT<SparseMatrix, Eigen::Lower> eigen(lower);
  double theirs = backward_error(lower, right, eigen.solve(right));
#ifdef TOPOGRAD_CHOLMOD
  const Eigen::CholmodSupernodalLLT<SparseMatrix, Eigen::Lower> cholmod(lower);
  theirs = std::min(theirs, backward_error(lower, right, cholmod.solve(right)));
#endif
  return 4 * std::max(theirs, std::numeric_limits<double>::epsilon() / 4);
}

/// Blocks of unknowns, some of which meet: random numbers off the diagonal, which dominates.
inline SparseMatrix blocks_that_meet(const std::vector<std::uint32_t>& widths, const Pairs& pairs,
                                     std::uint32_t seed = 7) {
  std::vector<int> first{0};
  for (const std::uint32_t w : widths) first.push_back(first.back() + static_cast<int>(w));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<Eigen::Triplet<double>> entries;
  std::vector<double> sums(static_cast<std::size_t>(first.back()), 0.1);
  const auto add = [&](int r, int c) {
    if (r == c) return;
    const double value = number(random);
    entries.emplace_back(std::max(r, c), std::min(r, c), value);
    sums[static_cast<std::size_t>(r)] += std::abs(value);
    sums[static_cast<std::size_t>(c)] += std::abs(value);
  };
  for (std::size_t b = 0; b < widths.size(); ++b)
    for (int r = first[b]; r < first[b + 1]; ++r)
      for (int c = first[b]; c < r; ++c) add(r, c);
  for (const auto& [a, b] : pairs)
    for (int r = first[a]; r < first[a + 1]; ++r)
      for (int c = first[b]; c < first[b + 1]; ++c) add(r, c);
  for (int k = 0; k < first.back(); ++k)
    entries.emplace_back(k, k, sums[static_cast<std::size_t>(k)]);
  SparseMatrix out(first.back(), first.back());
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

inline Pairs chain(std::uint32_t length) {
  Pairs out;
  for (std::uint32_t k = 0; k + 1 < length; ++k) out.emplace_back(k, k + 1);
  return out;
}

inline Pairs grid(std::uint32_t width, std::uint32_t height) {
  Pairs out;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::uint32_t k = y * width + x;
      if (x + 1 < width) out.emplace_back(k, k + 1);
      if (y + 1 < height) out.emplace_back(k, k + width);
    }
  }
  return out;
}

inline Pairs star(std::uint32_t leaves, std::uint32_t centre) {
  Pairs out;
  for (std::uint32_t k = 0; k <= leaves; ++k)
    if (k != centre) out.emplace_back(k, centre);
  return out;
}

inline Pairs all_pairs(std::uint32_t count) {
  Pairs out;
  for (std::uint32_t a = 0; a < count; ++a)
    for (std::uint32_t b = 0; b < a; ++b) out.emplace_back(b, a);
  return out;
}

/// `pairs` random pairs of `count` blocks, and widths of 1 to `widest`.
inline SparseMatrix random_blocks(std::uint32_t count, std::uint32_t pairs, std::uint32_t widest,
                                  std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> widths;
  for (std::uint32_t b = 0; b < count; ++b)
    widths.push_back(1 + static_cast<std::uint32_t>(random() % widest));
  Pairs meet;
  for (std::uint32_t k = 0; k < pairs; ++k) {
    const auto a = static_cast<std::uint32_t>(random() % count);
    const auto b = static_cast<std::uint32_t>(random() % count);
    if (a != b) meet.emplace_back(a, b);
  }
  return blocks_that_meet(widths, meet, seed);
}

/// A positive semidefinite matrix of small whole numbers, so that its factor rounds little.
struct SingularCase {
  std::string name;
  SparseMatrix lower;
  std::uint64_t deficiency;  ///< dimension of its null space

  runtime::PivotRule rule(double epsilon = std::numeric_limits<double>::epsilon()) const {
    return {static_cast<double>(lower.cols()) * epsilon};
  }
  /// A right side in its range.
  Vector right() const {
    Vector x(lower.cols());
    for (Eigen::Index k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k % 5) - 2;
    return lower.selfadjointView<Eigen::Lower>() * x;
  }
  /// With more on the diagonal.
  SparseMatrix regular() const {
    SparseMatrix out = lower;
    for (Eigen::Index k = 0; k < out.cols(); ++k) out.coeffRef(k, k) += 0.5;
    return out;
  }
  /// With less on one diagonal entry.
  SparseMatrix indefinite() const {
    SparseMatrix out = lower;
    out.coeffRef(out.cols() / 2, out.cols() / 2) -= 0.3;
    return out;
  }
};

/// The sum of (x_a − x_b)² over pairs: constants on each connected part are its null space.
inline SparseMatrix differences(std::uint32_t count, const Pairs& pairs) {
  std::vector<Eigen::Triplet<double>> entries;
  for (std::uint32_t k = 0; k < count; ++k)
    entries.emplace_back(static_cast<int>(k), static_cast<int>(k), 0.0);
  for (const auto& [a, b] : pairs) {
    entries.emplace_back(static_cast<int>(a), static_cast<int>(a), 1.0);
    entries.emplace_back(static_cast<int>(b), static_cast<int>(b), 1.0);
    entries.emplace_back(static_cast<int>(std::max(a, b)), static_cast<int>(std::min(a, b)), -1.0);
  }
  SparseMatrix out(count, count);
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

inline std::vector<SingularCase> singular_cases() {
  Pairs apart = grid(6, 5);
  for (const auto& [a, b] : chain(40)) apart.emplace_back(30 + a, 30 + b);
  return {{"a chain", differences(100, chain(100)), 1},
          {"a grid", differences(23 * 17, grid(23, 17)), 1},
          {"a star", differences(90, star(89, 0)), 1},
          {"a dense matrix", differences(40, all_pairs(40)), 1},
          {"two parts and a number alone", differences(71, apart), 3}};
}

/// The matrix with the rows of about a third of its unknowns negated, and the diagonal with them:
/// [H Aᵀ; A −C] in a random order. H and C dominate their rows, so that every order has the inertia
/// below (Vanderbei, Symmetric Quasidefinite Matrices).
struct QuasidefiniteCase {
  std::string name;
  SparseMatrix lower;
  std::uint64_t negative = 0;
};

inline QuasidefiniteCase quasidefinite(const FactorCase& from, std::uint32_t seed = 11) {
  QuasidefiniteCase out{from.name, from.lower};
  std::mt19937 random(seed);
  std::vector<bool> negated;
  for (Eigen::Index k = 0; k < from.lower.cols(); ++k) negated.push_back(random() % 3 == 0);
  for (Eigen::Index c = 0; c < out.lower.cols(); ++c) {
    if (negated[static_cast<std::size_t>(c)]) ++out.negative;
    for (SparseMatrix::InnerIterator it(out.lower, c); it; ++it)
      if (negated[static_cast<std::size_t>(c)] && negated[static_cast<std::size_t>(it.row())])
        it.valueRef() = -it.value();
  }
  return out;
}

/// A − σ, with σ among the eigenvalues of A: nothing bounds the growth in a factor of it.
inline SparseMatrix shifted(const SparseMatrix& lower) {
  SparseMatrix out = lower;
  std::vector<double> diagonal;
  for (Eigen::Index k = 0; k < out.cols(); ++k) diagonal.push_back(out.coeff(k, k));
  std::ranges::sort(diagonal);
  for (Eigen::Index k = 0; k < out.cols(); ++k)
    out.coeffRef(k, k) -= 1.0001 * diagonal[diagonal.size() / 3];
  return out;
}

/// Negative eigenvalues: by all of them, by Eigen's dense LDLᵀ with pivoting, or by the sparse one.
inline std::uint64_t negative_eigenvalues(const SparseMatrix& lower) {
  const auto count = [](const Vector& v) {
    return static_cast<std::uint64_t>((v.array() < 0).count());
  };
  if (lower.cols() <= 200) {
    return count(Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(Eigen::MatrixXd(lower),
                                                                Eigen::EigenvaluesOnly)
                     .eigenvalues());
  }
  if (lower.cols() <= 600)
    return count(Eigen::LDLT<Eigen::MatrixXd, Eigen::Lower>(Eigen::MatrixXd(lower)).vectorD());
  return count(Eigen::SimplicialLDLT<SparseMatrix, Eigen::Lower>(lower).vectorD());
}

/// Four times the backward error of Eigen's dense LU with partial pivoting, or of rounding if that
/// is larger.
inline double bound_by_dense_peer(const SparseMatrix& lower, const Vector& right) {
  const Eigen::MatrixXd whole = SparseMatrix(lower.selfadjointView<Eigen::Lower>());
  const Vector x = Eigen::PartialPivLU<Eigen::MatrixXd>(whole).solve(right);
  return 4 * std::max(backward_error(lower, right, x), std::numeric_limits<double>::epsilon() / 4);
}

/// A dense matrix whose first pivot is so small that rounding leaves nothing of the others.
inline SparseMatrix with_growth(std::uint32_t count = 30) {
  SparseMatrix out = blocks_that_meet({count}, {});
  for (Eigen::Index k = 0; k < out.cols(); ++k) out.coeffRef(k, k) = 0;
  out.coeffRef(0, 0) = 1e-25;
  return out;
}

inline std::vector<FactorCase> factor_cases() {
  const auto of = [](std::uint32_t count, std::uint32_t width) {
    return std::vector<std::uint32_t>(count, width);
  };
  Pairs two_grids = grid(9, 9);
  for (const auto& [a, b] : grid(7, 11)) two_grids.emplace_back(81 + a, 81 + b);
  return {
      {"no unknowns", SparseMatrix(0, 0)},
      {"one unknown", blocks_that_meet(of(1, 1), {})},
      {"a diagonal", blocks_that_meet(of(40, 1), {})},
      {"a chain", blocks_that_meet(of(500, 1), chain(500))},
      {"a chain of blocks", blocks_that_meet(of(90, 6), chain(90))},
      {"a grid", blocks_that_meet(of(37 * 29, 1), grid(37, 29))},
      {"a grid of blocks", blocks_that_meet(of(24 * 31, 3), grid(24, 31))},
      {"a star, its centre first", blocks_that_meet(of(200, 2), star(199, 0))},
      {"a star, its centre last", blocks_that_meet(of(200, 2), star(199, 199))},
      {"a dense matrix", blocks_that_meet(of(1, 330), {})},
      {"dense blocks", blocks_that_meet(of(23, 7), all_pairs(23))},
      {"two grids that do not meet", blocks_that_meet(of(81 + 77, 3), two_grids)},
      {"an unknown alone in a grid", blocks_that_meet(of(101, 2), grid(10, 10))},
      {"mixed widths", random_blocks(220, 500, 16, 3)},
      {"large fronts", random_blocks(900, 2700, 3, 5)},
  };
}

}  // namespace topograd::test
