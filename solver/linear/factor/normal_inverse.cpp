// The selected inverse of the scaled normal matrix, and solves for other entries.
#include "normal_inverse.hpp"

#include "../../../runtime/cpu/factor/selected_inverse.hpp"
#include "lower_pattern.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// Least pivot of the scaled matrix, whose diagonal is 1: an entry of the inverse loses about as
/// many digits as its reciprocal has.
constexpr double kLeastPivot = 1e-7;

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

}  // namespace topograd
