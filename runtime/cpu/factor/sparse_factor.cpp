// The numeric factorisation: subtrees side by side, then fronts by level, the large ones by tiles.
// A dense matrix is one front.
#include "sparse_factor.hpp"

#include "../../../ir/machine/platform.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace topograd::runtime::cpu {
namespace {

/// Tiles of rows that are worked on together: their part of a panel stays in a cache, and there are
/// enough of them for several threads.
constexpr std::uint32_t kRows = 16;
/// Tiles of pivots after which the rows below are brought up to date.
constexpr std::uint32_t kPivots = 8;
/// Nanoseconds of a front that are worth several threads.
constexpr double kWorthThreads = 100'000;

/// Offset of a diagonal entry in the panel of a front.
std::uint64_t diagonal_at(const Front& front, std::uint32_t k) {
  return std::uint64_t{k / kTile} * kTile * front.pivots + std::uint64_t{k} * kTile + k % kTile;
}

std::uint32_t ranges(std::uint32_t count, std::uint32_t size) { return (count + size - 1) / size; }

/// A panel with `tiles` tiles of rows; limits and signs as FrontKernels has them.
struct Panel {
  double* numbers = nullptr;
  std::uint32_t pivots = 0, tiles = 0;
  const double* limits = nullptr;
  double* signs = nullptr;
};

/// Factorises all pivots of a panel. Work that should end refuses pivot 0.
///
///   pool  null: this thread alone
FrontKernels::Pivot factor_panel(const FrontKernels& kernels, const Panel& panel, Pool* pool) {
  const std::uint32_t k = panel.pivots, pivots = tiled(k) / kTile;
  FrontKernels::Pivot out{k, 0, 0, 0};
  for (std::uint32_t begin = 0; begin < pivots; begin += kPivots) {
    if (platform::EndableWork::should_end()) return {0, 0, out.vanished, out.negative};
    const std::uint32_t end = std::min(begin + kPivots, pivots), rows = panel.tiles - end;
    const FrontKernels::Pivot pivot =
        kernels.factor(panel.numbers, k, begin, end, panel.limits, panel.signs);
    out.vanished += pivot.vanished;
    out.negative += pivot.negative;
    if (pivot.column < k) return {pivot.column, pivot.value, out.vanished, out.negative};
    const double* signs = out.negative == 0 ? nullptr : panel.signs;
    const auto part = [&](std::size_t first, std::size_t last) {
      kernels.eliminate(panel.numbers, panel.numbers + (end + first) * kTile * k,
                        static_cast<std::uint32_t>(last - first), k, begin, end, signs);
    };
    if (pool != nullptr) {
      pool->for_ranges(rows, kRows, part);
    } else {
      for (std::uint32_t r = 0; r < rows; r += kRows) part(r, std::min(r + kRows, rows));
    }
  }
  return out;
}

}  // namespace

bool DenseFactor::factor(Pool& pool, std::span<const double> lower, std::uint32_t n) {
  n_ = n;
  panel_.assign(std::size_t{tiled(n)} * n, 0.0);
  for (std::size_t c = 0; c < n; ++c)
    for (std::size_t r = c; r < n; ++r)
      panel_[r / kTile * kTile * n + c * kTile + r % kTile] = lower[c * n + r];
  Pool* const threads = front_time(n, 0) > kWorthThreads ? &pool : nullptr;
  const Panel panel{.numbers = panel_.data(), .pivots = n, .tiles = tiled(n) / kTile};
  return factor_panel(kernels_, panel, threads).column == n;
}

std::span<const double> DenseFactor::solve(std::span<const double> right) {
  solution_.assign(tiled(n_), 0.0);
  std::ranges::copy(right, solution_.begin());
  kernels_.forward(panel_.data(), n_, tiled(n_) / kTile, solution_.data());
  kernels_.backward(panel_.data(), n_, tiled(n_) / kTile, solution_.data());
  return std::span(solution_).first(n_);
}

SparseFactor::SparseFactor(FactorPlan plan, int threads, const FrontKernels& kernels)
    : plan_(std::move(plan)),
      pool_(threads),
      kernels_(kernels),
      failed_(plan_.fronts.size()),
      skipped_(plan_.fronts.size()) {}

std::uint64_t SparseFactor::bytes() const {
  return sizeof(double) * (plan_.factor_size + plan_.workspace_size + plan_.right_size);
}

std::span<const std::uint32_t> SparseFactor::parent_rows(const Front& front) const {
  return std::span(plan_.parent_rows).subspan(front.rows, front.below);
}

FactorReport SparseFactor::factor(std::span<const double> values, const PivotRule& rule) {
  factor_.resize(plan_.factor_size);
  workspace_.resize(plan_.workspace_size);
  right_.resize(plan_.right_size);
  std::ranges::fill(failed_, FactorReport{});
  std::ranges::fill(skipped_, 0);
  limits_.resize(rule.vanishing > 0 ? plan_.order.size() : 0);
  signs_.resize(rule.admitted == AdmittedPivots::nonzero ? plan_.order.size() : 0);
  upward(plan_, pool_, [&](std::uint32_t f) { eliminate(f, values, rule); });
  // Every front whose children are complete was tried, on any number of threads; of those that
  // failed the first one is reported.
  FactorReport out;
  for (const FactorReport& report : failed_) {
    if (report.end != FactorEnd::complete) return report;
    out.vanished += report.vanished;
    out.negative += report.negative;
  }
  out.positive = plan_.order.size() - out.negative - out.vanished;
  return out;
}

void SparseFactor::eliminate(std::uint32_t f, std::span<const double> values,
                             const PivotRule& rule) {
  const Front& front = plan_.fronts[f];
  for (std::uint32_t c = front.children; c < front.children_end; ++c)
    skipped_[f] |= skipped_[plan_.children[c]];
  if (skipped_[f] != 0) return;
  assemble(front, values, rule);
  if (factor_pivots(f, front)) {
    update(f, front);
  } else {
    skipped_[f] = 1;
  }
}

/// Gathers the pivots' columns.
void SparseFactor::assemble(const Front& front, std::span<const double> values,
                            const PivotRule& rule) {
  double* panel = factor_.data() + front.panel;
  std::fill_n(panel, front.panel_size(), 0.0);
  for (std::uint32_t e = front.entries; e < front.entries_end; ++e)
    panel[plan_.entries[e].at] = values[plan_.entries[e].value];
  for (std::uint32_t k = 0; k < front.pivots && !limits_.empty(); ++k)
    limits_[front.first + k] = rule.vanishing * std::abs(panel[diagonal_at(front, k)]);
  for (std::uint32_t c = front.children; c < front.children_end; ++c) {
    const Front& child = plan_.fronts[plan_.children[c]];
    kernels_.add_to_panel(workspace_.data() + child.update, parent_rows(child).data(), child.below,
                          panel, front.pivots);
  }
}

bool SparseFactor::factor_pivots(std::uint32_t f, const Front& front) {
  const Panel panel{.numbers = factor_.data() + front.panel,
                    .pivots = front.pivots,
                    .tiles = front.tiles(),
                    .limits = limits_.empty() ? nullptr : limits_.data() + front.first,
                    .signs = signs_.empty() ? nullptr : signs_.data() + front.first};
  const bool large = front_time(front.pivots, front.below) > kWorthThreads;
  const FrontKernels::Pivot pivot = factor_panel(kernels_, panel, large ? &pool_ : nullptr);
  failed_[f].vanished = pivot.vanished;
  failed_[f].negative = pivot.negative;
  if (pivot.column == front.pivots) return true;
  failed_[f] = {.end = std::isfinite(pivot.value) ? FactorEnd::not_positive : FactorEnd::not_finite,
                .column = plan_.order[front.first + pivot.column],
                .pivot = pivot.value};
  return false;
}

/// Signs of a front's pivots; null if none is negative.
const double* SparseFactor::signs_of(std::uint32_t f) const {
  return failed_[f].negative == 0 ? nullptr : signs_.data() + plan_.fronts[f].first;
}

/// Computes the update matrix: −LSLᵀ of the rows below the pivots, plus the children's updates.
void SparseFactor::update(std::uint32_t f, const Front& front) {
  if (front.below == 0) return;
  const double* below =
      factor_.data() + front.panel + std::uint64_t{front.pivot_rows()} * front.pivots;
  double* to = workspace_.data() + front.update;
  const std::uint32_t tiles = tiled(front.below) / kTile, parts = ranges(tiles, kRows);
  const auto square = [&](std::uint32_t row, std::uint32_t column) {
    if (platform::EndableWork::should_end()) return;  // its parent fails
    kernels_.update(below, to, front.pivots, row * kRows, std::min((row + 1) * kRows, tiles),
                    column * kRows, std::min((column + 1) * kRows, tiles), signs_of(f));
  };
  const auto add = [&](const Front& child, std::uint32_t begin, std::uint32_t end) {
    kernels_.add_to_update(workspace_.data() + child.update, parent_rows(child).data(), child.below,
                           to, front.pivots, begin, end);
  };
  if (front_time(front.pivots, front.below) <= kWorthThreads) {
    for (std::uint32_t r = 0; r < parts; ++r)
      for (std::uint32_t c = 0; c <= r; ++c) square(r, c);
    for (std::uint32_t c = front.children; c < front.children_end; ++c) {
      const Front& child = plan_.fronts[plan_.children[c]];
      add(child, 0, tiled(child.below) / kTile);
    }
    return;
  }
  pool_.for_ranges(std::size_t{parts} * parts, 1, [&](std::size_t k, std::size_t) {
    const auto row = static_cast<std::uint32_t>(k / parts),
               column = static_cast<std::uint32_t>(k % parts);
    if (column <= row) square(row, column);
  });
  // The rows of one child are different rows here: they can be added at one time.
  for (std::uint32_t c = front.children; c < front.children_end; ++c) {
    const Front& child = plan_.fronts[plan_.children[c]];
    pool_.for_ranges(tiled(child.below) / kTile, 4, [&](std::size_t begin, std::size_t end) {
      add(child, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    });
  }
}

double SparseFactor::least_pivot() const {
  double reciprocal = 0;
  for (std::uint32_t f = 0; f < plan_.fronts.size(); ++f) {
    for (std::uint32_t k = 0; k < plan_.fronts[f].pivots; ++k)
      reciprocal = std::max(reciprocal, std::abs(panel(f)[diagonal_at(plan_.fronts[f], k)]));
  }
  return 1 / (reciprocal * reciprocal);
}

void SparseFactor::solve(std::span<const double> right, std::span<double> solution) const {
  upward(plan_, pool_, [&](std::uint32_t f) {
    const Front& front = plan_.fronts[f];
    double* y = right_.data() + front.right;
    std::fill_n(y, front.tiles() * kTile, 0.0);
    for (std::uint32_t k = 0; k < front.pivots; ++k) y[k] = right[plan_.order[front.first + k]];
    for (std::uint32_t c = front.children; c < front.children_end; ++c) {
      const Front& child = plan_.fronts[plan_.children[c]];
      const double* from = right_.data() + child.right + child.pivot_rows();
      const std::span<const std::uint32_t> to = parent_rows(child);
      for (std::uint32_t k = 0; k < child.below; ++k) y[to[k]] += from[k];
    }
    kernels_.forward(factor_.data() + front.panel, front.pivots, front.tiles(), y);
  });
  downward(plan_, pool_, [&](std::uint32_t f) {
    const Front& front = plan_.fronts[f];
    double* y = right_.data() + front.right;
    const std::uint32_t* rows = plan_.rows.data() + front.rows;
    for (std::uint32_t k = 0; k < front.below; ++k)
      y[front.pivot_rows() + k] = solution[plan_.order[rows[k]]];
    if (const double* signs = signs_of(f); signs != nullptr)
      for (std::uint32_t k = 0; k < front.pivots; ++k) y[k] *= signs[k];
    kernels_.backward(factor_.data() + front.panel, front.pivots, front.tiles(), y);
    for (std::uint32_t k = 0; k < front.pivots; ++k) solution[plan_.order[front.first + k]] = y[k];
  });
}

}  // namespace topograd::runtime::cpu
