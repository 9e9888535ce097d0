// The selected inverse of the scaled normal matrix, solves for other entries, and what is left of
// it where J lacks rank.
#include "normal_inverse.hpp"

#include "../../../runtime/cpu/factor/selected_inverse.hpp"
#include "../../../runtime/linear/dense.hpp"
#include "lower_pattern.hpp"

#include <Eigen/SparseCholesky>
#include <Eigen/SparseQR>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// Least pivot of the scaled matrix, whose diagonal is 1: an entry of the inverse loses about as
/// many digits as its reciprocal has.
constexpr double kLeastPivot = 1e-7;
/// A coordinate is determined if no unit vector of the null space, columns scaled to length 1, has
/// a larger part along it: rounding.
constexpr double kNoPart = 1e-8;

using Vector = Eigen::VectorXd;
using Coordinates = std::vector<std::uint32_t>;

/// Singular values of a square matrix, and its right singular vectors.
runtime::Svd right_svd(const Eigen::MatrixXd& R) {
  constexpr Eigen::Index kMostByRotations = 200;
  return R.cols() <= kMostByRotations ? runtime::accurate_svd(R, runtime::SvdVectors::right)
                                      : runtime::fast_svd(R, runtime::SvdVectors::right);
}

/// Flags of the coordinates in components with a small pivot.
std::vector<bool> nearly_singular(const SparseMatrix& lower) {
  const Vector scale = lower.diagonal().cwiseSqrt().cwiseInverse();
  Eigen::SimplicialLDLT<SparseMatrix, Eigen::Lower> factor;
  factor.setShift(kLeastPivot * kLeastPivot);  // no pivot is 0
  factor.compute(scaled_by(scale, lower));
  std::vector<bool> out(static_cast<std::size_t>(lower.cols()), true);
  if (factor.info() != Eigen::Success) return out;
  const Vector pivots = factor.permutationPinv() * Vector(factor.vectorD());
  const Coordinates component = components(lower);
  out.assign(out.size(), false);
  // A little above the bound, because another order of elimination has other pivots.
  for (std::size_t k = 0; k < out.size(); ++k)
    if (!(pivots[static_cast<Eigen::Index>(k)] >= 2 * kLeastPivot)) out[component[k]] = true;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = out[component[k]];
  return out;
}

}  // namespace

struct NormalInverse::Impl {
  Impl(const SparseMatrix& matrix, int threads)
      : scale(matrix.diagonal().cwiseSqrt().cwiseInverse()),
        lower(scaled_by(scale, matrix)),
        factor(runtime::make_factor_plan(pattern_of(lower)), threads) {
    const bool complete = factor.factor(values_of(lower)).end == runtime::FactorEnd::complete;
    if (complete && factor.least_pivot() >= kLeastPivot) selected.emplace(factor);
  }

  bool in_pattern(const CoordinateRange& a, const CoordinateRange& b) const {
    for (std::uint32_t r = 0; r < a.count; ++r)
      for (std::uint32_t c = 0; c < b.count; ++c)
        if (!selected->contains(a.first + r, b.first + c)) return false;
    return true;
  }

  void request(const CoordinateRange& a, const CoordinateRange& b) {
    for (std::uint32_t r = 0; r < a.count; ++r)
      for (std::uint32_t c = 0; c < b.count; ++c) selected->request(a.first + r, b.first + c);
  }

  Eigen::MatrixXd from_pattern(const CoordinateRange& a, const CoordinateRange& b) const {
    Eigen::MatrixXd out(a.count, b.count);
    for (std::uint32_t r = 0; r < a.count; ++r)
      for (std::uint32_t c = 0; c < b.count; ++c)
        out(r, c) =
            selected->entry(a.first + r, b.first + c) * (scale[a.first + r] * scale[b.first + c]);
    return out;
  }

  /// Entries of some rows in the columns of a range.
  Eigen::MatrixXd solve(std::span<const std::uint32_t> rows, const CoordinateRange& range) const {
    Eigen::MatrixXd out = selected->solve(rows, range.first, range.count);
    for (std::size_t k = 0; k < rows.size(); ++k)
      for (std::uint32_t c = 0; c < range.count; ++c)
        out(static_cast<Eigen::Index>(k), c) *= scale[rows[k]] * scale[range.first + c];
    return out;
  }

  Eigen::VectorXd scale;  // 1 / ‖column of J‖
  SparseMatrix lower;     // scaled
  runtime::cpu::SparseFactor factor;
  std::optional<runtime::cpu::SelectedInverse> selected;  // unless the factor is of no use
  std::mutex mutex;
};

NormalInverse::NormalInverse(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NormalInverse::~NormalInverse() = default;

std::unique_ptr<NormalInverse> NormalInverse::make(const SparseMatrix& lower, int threads) {
  auto impl = std::make_unique<Impl>(lower, threads);
  if (!impl->selected) return nullptr;
  return std::unique_ptr<NormalInverse>(new NormalInverse(std::move(impl)));
}

std::vector<Eigen::MatrixXd> NormalInverse::blocks(std::span<const Pair> pairs) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Eigen::MatrixXd> out(pairs.size());
  std::vector<std::size_t> inside, outside;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto& [a, b] = pairs[k];
    if (impl_->in_pattern(a, b)) {
      impl_->request(a, b);
      inside.push_back(k);
    } else {
      outside.push_back(k);
    }
  }
  impl_->selected->compute();
  for (const std::size_t k : inside) out[k] = impl_->from_pattern(pairs[k].a, pairs[k].b);
  // The later range's columns, in whichever order a pair has them.
  const auto later = [&](std::size_t k) {
    return pairs[k].a.first > pairs[k].b.first ? pairs[k].a : pairs[k].b;
  };
  std::ranges::stable_sort(outside, {}, [&](std::size_t k) { return later(k).first; });
  std::vector<std::size_t> starts;  // of pairs with the same later range
  for (std::size_t k = 0; k < outside.size(); ++k)
    if (k == 0 || later(outside[k]).first != later(outside[k - 1]).first) starts.push_back(k);
  starts.push_back(outside.size());
  impl_->factor.pool().for_ranges(starts.size() - 1, 1, [&](std::size_t group, std::size_t) {
    const std::span own =
        std::span(outside).subspan(starts[group], starts[group + 1] - starts[group]);
    const CoordinateRange range = later(own.front());
    std::vector<std::uint32_t> rows;
    const auto other = [&](std::size_t k) {
      return range.first == pairs[k].b.first ? pairs[k].a : pairs[k].b;
    };
    for (const std::size_t k : own)
      for (std::uint32_t r = 0; r < other(k).count; ++r) rows.push_back(other(k).first + r);
    const Eigen::MatrixXd solved = impl_->solve(rows, range);
    Eigen::Index at = 0;
    for (const std::size_t k : own) {
      out[k] = solved.middleRows(at, other(k).count);
      at += other(k).count;
      if (range.first != pairs[k].b.first) out[k].transposeInPlace();
    }
  });
  return out;
}

struct DeterminedInverse::Impl {
  /// Some coordinates of J and their part of the inverse. Those of no other part meet them.
  struct Part {
    Coordinates coordinates;                // ascending
    std::unique_ptr<NormalInverse> normal;  // null: the columns of `factor`
    /// C = F Fᵀ, by row a coordinate of the part.
    Eigen::MatrixXd factor;
    /// C = S P R⁻¹ R⁻ᵀ Pᵀ S on the coordinates before the rank in the permutation, 0 on others.
    SparseMatrix R;
    Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> order;
    Vector scale;

    /// The range within the part, by position in `coordinates`.
    CoordinateRange within(const CoordinateRange& range) const {
      const auto first = std::ranges::lower_bound(coordinates, range.first);
      const auto end = std::lower_bound(first, coordinates.end(), range.first + range.count);
      return {static_cast<std::uint32_t>(first - coordinates.begin()),
              static_cast<std::uint32_t>(end - first)};
    }
    Vector column(std::uint32_t k) const {
      const Eigen::Index independent = R.cols();
      Vector x = order.transpose() * (scale[k] * Vector::Unit(scale.size(), k));
      Vector top = x.head(independent);
      R.transpose().triangularView<Eigen::Lower>().solveInPlace(top);
      R.triangularView<Eigen::Upper>().solveInPlace(top);
      x.setZero();
      x.head(independent) = top;
      return scale.cwiseProduct(Vector(order * x));
    }
    std::vector<Eigen::MatrixXd> blocks(std::span<const NormalInverse::Pair> pairs) const {
      if (normal != nullptr) return normal->blocks(pairs);
      std::vector<Eigen::MatrixXd> out;
      std::map<std::uint32_t, Vector> columns;  // that several pairs may have
      for (const auto& [a, b] : pairs) {
        Eigen::MatrixXd& block = out.emplace_back(a.count, b.count);
        if (factor.size() > 0) {
          block =
              factor.middleRows(a.first, a.count) * factor.middleRows(b.first, b.count).transpose();
          continue;
        }
        for (std::uint32_t c = b.first; c < b.first + b.count; ++c) {
          const auto [at, fresh] = columns.try_emplace(c);
          if (fresh) at->second = column(c);
          block.col(c - b.first) = at->second.segment(a.first, a.count);
        }
      }
      return out;
    }
  };

  explicit Impl(std::size_t size) : is_determined(size, false) {}

  /// The columns of J that are not 0, where the factor of JᵀJ has the digits.
  bool add_normal(const SparseMatrix& lower, const Coordinates& kept, int threads) {
    if (kept.empty()) return true;
    std::unique_ptr<NormalInverse> inverse =
        kept.size() == is_determined.size() ? NormalInverse::make(lower, threads)
                                            : NormalInverse::make(lower_part(lower, kept), threads);
    if (inverse == nullptr) return false;
    for (const std::uint32_t k : kept) is_determined[k] = true;
    rank += kept.size();
    parts.push_back({.coordinates = kept, .normal = std::move(inverse)});
    return true;
  }

  void add_rows(const SparseMatrix& jacobian, const Coordinates& kept, double threshold) {
    if (kept.empty()) return;
    const auto size = static_cast<Eigen::Index>(kept.size());
    SparseMatrix J(jacobian.rows(), size);
    Vector scale = Vector::Ones(size);
    std::vector<Eigen::Triplet<double>> entries;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      const double length = jacobian.col(kept[k]).norm();
      if (threshold < 0 && length > 0) scale[static_cast<Eigen::Index>(k)] = 1 / length;
      for (SparseMatrix::InnerIterator it(jacobian, kept[k]); it; ++it)
        entries.emplace_back(static_cast<int>(it.row()), static_cast<int>(k),
                             it.value() * scale[static_cast<Eigen::Index>(k)]);
    }
    J.setFromTriplets(entries.begin(), entries.end());
    J.makeCompressed();
    Eigen::SparseQR<SparseMatrix, Eigen::COLAMDOrdering<int>> qr;
    if (threshold >= 0) qr.setPivotThreshold(threshold);
    qr.compute(J);
    if (qr.info() != Eigen::Success) return;
    const Eigen::Index r = qr.rank();
    rank += static_cast<std::size_t>(r);
    Part part{.coordinates = kept, .order = qr.colsPermutation(), .scale = scale};
    part.R = SparseMatrix(qr.matrixR()).topLeftCorner(r, r);
    const SparseMatrix R = qr.matrixR();
    Vector share = Vector::Zero(size);  // the largest part of null vectors, in the order of R
    share.tail(size - r).setOnes();
    for (Eigen::Index c = r; c < size; ++c) {
      Vector null = Vector(R.col(c)).head(r);
      part.R.triangularView<Eigen::Upper>().solveInPlace(null);
      const double length = std::sqrt(1 + null.squaredNorm());
      share.head(r) = share.head(r).cwiseMax(null.cwiseAbs() / length);
    }
    const Vector by_coordinate = part.order * share;
    for (std::size_t k = 0; k < kept.size(); ++k)
      is_determined[kept[k]] = by_coordinate[static_cast<Eigen::Index>(k)] <= kNoPart;
    parts.push_back(std::move(part));
  }

  std::vector<Part> parts;
  std::vector<bool> is_determined;  // by coordinate
  std::size_t rank = 0;
};

DeterminedInverse::DeterminedInverse(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeterminedInverse::~DeterminedInverse() = default;
DeterminedInverse::DeterminedInverse(DeterminedInverse&&) noexcept = default;
DeterminedInverse& DeterminedInverse::operator=(DeterminedInverse&&) noexcept = default;

DeterminedInverse DeterminedInverse::sparse(const SparseMatrix& lower,
                                            const std::function<SparseMatrix()>& jacobian,
                                            double threshold, int threads) {
  auto impl = std::make_unique<Impl>(static_cast<std::size_t>(lower.cols()));
  Coordinates moved;  // that some residual depends on
  for (Eigen::Index k = 0; k < lower.cols(); ++k)
    if (lower.coeff(k, k) > 0) moved.push_back(static_cast<std::uint32_t>(k));
  // A threshold is about columns of R.
  if (threshold >= 0) {
    impl->add_rows(jacobian(), moved, threshold);
  } else if (!impl->add_normal(lower, moved, threads)) {
    const std::vector<bool> singular = nearly_singular(lower_part(lower, moved));
    Coordinates regular, rest;
    for (std::size_t k = 0; k < moved.size(); ++k)
      (singular[k] ? rest : regular).push_back(moved[k]);
    if (!impl->add_normal(lower, regular, threads)) rest = moved;
    impl->add_rows(jacobian(), rest, threshold);
  }
  return DeterminedInverse(std::move(impl));
}

DeterminedInverse DeterminedInverse::dense(const Eigen::MatrixXd& jacobian, double least_ratio,
                                           int null_space_rank) {
  const Eigen::Index n = jacobian.cols(), rows = std::min(jacobian.rows(), n);
  auto impl = std::make_unique<Impl>(static_cast<std::size_t>(n));
  if (n == 0) return DeterminedInverse(std::move(impl));
  // J and its triangular factor have the same singular values and right singular vectors.
  Eigen::MatrixXd R = Eigen::MatrixXd::Zero(n, n);
  R.topRows(rows) = runtime::upper_factor(jacobian);
  const runtime::Svd svd = right_svd(R);
  const Vector& values = svd.values;
  const Eigen::Index most = n - std::max<Eigen::Index>(null_space_rank, 0);
  Eigen::Index kept = 0;
  const auto large = [&](double value) {
    const double ratio = value / values[0];
    return value > 0 && ratio * ratio >= least_ratio;
  };
  while (kept < most && large(values[kept])) ++kept;
  impl->rank = static_cast<std::size_t>(kept);
  const bool pseudo = null_space_rank < 0 || (null_space_rank > 0 && kept == most);
  const Eigen::MatrixXd null = svd.v.rightCols(n - kept);
  for (Eigen::Index k = 0; k < n; ++k)
    impl->is_determined[static_cast<std::size_t>(k)] =
        pseudo || null.cols() == 0 || null.row(k).cwiseAbs().maxCoeff() <= kNoPart;
  Impl::Part part;
  part.coordinates.resize(static_cast<std::size_t>(n));
  std::iota(part.coordinates.begin(), part.coordinates.end(), 0U);
  part.factor = Eigen::MatrixXd::Zero(n, std::max<Eigen::Index>(kept, 1));
  part.factor.leftCols(kept) = svd.v.leftCols(kept) * values.head(kept).cwiseInverse().asDiagonal();
  impl->parts.push_back(std::move(part));
  return DeterminedInverse(std::move(impl));
}

std::size_t DeterminedInverse::rank() const { return impl_->rank; }

std::optional<std::uint32_t> DeterminedInverse::undetermined(const CoordinateRange& range) const {
  for (std::uint32_t k = range.first; k < range.first + range.count; ++k)
    if (!impl_->is_determined[k]) return k;
  return std::nullopt;
}

std::vector<Eigen::MatrixXd> DeterminedInverse::blocks(
    std::span<const NormalInverse::Pair> pairs) const {
  std::vector<Eigen::MatrixXd> out;
  for (const auto& [a, b] : pairs) out.push_back(Eigen::MatrixXd::Zero(a.count, b.count));
  for (const Impl::Part& part : impl_->parts) {
    std::vector<NormalInverse::Pair> inside;
    std::vector<std::size_t> of;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const NormalInverse::Pair own{part.within(pairs[k].a), part.within(pairs[k].b)};
      if (own.a.count == 0 || own.b.count == 0) continue;
      inside.push_back(own);
      of.push_back(k);
    }
    const std::vector<Eigen::MatrixXd> found = part.blocks(inside);
    for (std::size_t k = 0; k < inside.size(); ++k) {
      const auto& [a, b] = inside[k];
      for (std::uint32_t r = 0; r < a.count; ++r)
        for (std::uint32_t c = 0; c < b.count; ++c)
          out[of[k]](part.coordinates[a.first + r] - pairs[of[k]].a.first,
                     part.coordinates[b.first + c] - pairs[of[k]].b.first) = found[k](r, c);
    }
  }
  return out;
}

}  // namespace topograd
