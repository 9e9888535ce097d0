// Takahashi's recurrence, from the roots of the tree of fronts to its leaves.
#include "selected_inverse.hpp"

#include "sparse_factor.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace topograd::runtime::cpu {
namespace {

using Eigen::MatrixXd;

std::span<const std::uint32_t> rows_below(const FactorPlan& plan, const Front& front) {
  return std::span(plan.rows).subspan(front.rows, front.below);
}

/// Rows [begin, begin + count) of a panel.
MatrixXd untiled(const double* panel, std::uint32_t pivots, std::uint32_t begin,
                 std::uint32_t count) {
  MatrixXd out(count, pivots);
  for (std::uint32_t r = 0; r < count; ++r) {
    const std::uint32_t row = begin + r;
    const double* from = panel + std::uint64_t{row / kTile} * kTile * pivots + row % kTile;
    for (std::uint32_t c = 0; c < pivots; ++c) out(r, c) = from[std::uint64_t{c} * kTile];
  }
  return out;
}

}  // namespace

SelectedInverse::SelectedInverse(const SparseFactor& factor)
    : factor_(factor),
      plan_(factor.plan()),
      position_(plan_.order.size()),
      front_of_(plan_.order.size()),
      columns_(plan_.fronts.size()),
      wanted_(plan_.fronts.size()) {
  for (std::uint32_t k = 0; k < plan_.order.size(); ++k) position_[plan_.order[k]] = k;
  for (std::uint32_t f = 0; f < plan_.fronts.size(); ++f)
    std::fill_n(front_of_.begin() + plan_.fronts[f].first, plan_.fronts[f].pivots, f);
}

std::uint32_t SelectedInverse::row_in(std::uint32_t f, std::uint32_t position) const {
  const Front& front = plan_.fronts[f];
  if (position < front.first + front.pivots) return position - front.first;
  const std::span<const std::uint32_t> rows = rows_below(plan_, front);
  const auto found = std::ranges::lower_bound(rows, position);
  if (found == rows.end() || *found != position) return kNoFront;
  return front.pivots + static_cast<std::uint32_t>(found - rows.begin());
}

SelectedInverse::EntryPosition SelectedInverse::find(std::uint32_t row,
                                                     std::uint32_t column) const {
  const auto [first, last] = std::minmax(position_[row], position_[column]);
  const std::uint32_t f = front_of_[first];
  return {f, row_in(f, last), first - plan_.fronts[f].first};
}

bool SelectedInverse::contains(std::uint32_t row, std::uint32_t column) const {
  return find(row, column).row != kNoFront;
}

void SelectedInverse::request(std::uint32_t row, std::uint32_t column) {
  for (std::uint32_t f = find(row, column).front; f != kNoFront && wanted_[f] == 0;
       f = plan_.fronts[f].parent) {
    wanted_[f] = 1;
    more_wanted_ = true;
  }
}

void SelectedInverse::compute() {
  if (!std::exchange(more_wanted_, false)) return;
  downward(plan_, factor_.pool(), [&](std::uint32_t f) {
    if (wanted_[f] != 0 && columns_[f].size() == 0) invert(f);
  });
}

double SelectedInverse::entry(std::uint32_t row, std::uint32_t column) const {
  const EntryPosition entry = find(row, column);
  return columns_[entry.front](entry.row, entry.column);
}

/// The inverse's entries between the rows below the pivots: columns of ancestors.
MatrixXd SelectedInverse::below(const Front& front) const {
  const std::span<const std::uint32_t> rows = rows_below(plan_, front);
  MatrixXd out(front.below, front.below);
  std::vector<std::uint32_t> at(front.below);
  for (std::uint32_t begin = 0; begin < front.below;) {
    // Columns that one ancestor owns. Their rows are among its own.
    const std::uint32_t parent = front_of_[rows[begin]];
    const Front& above = plan_.fronts[parent];
    for (std::uint32_t k = begin; k < front.below; ++k) at[k] = row_in(parent, rows[k]);
    for (; begin < front.below && rows[begin] < above.first + above.pivots; ++begin) {
      const auto column = columns_[parent].col(rows[begin] - above.first);
      for (std::uint32_t k = begin; k < front.below; ++k)
        out(k, begin) = out(begin, k) = column[at[k]];
    }
  }
  return out;
}

/// L₁, the triangle of the pivots.
MatrixXd SelectedInverse::pivots_of(const Front& front) const {
  const double* panel = factor_.panel(static_cast<std::uint32_t>(&front - plan_.fronts.data()));
  MatrixXd L = untiled(panel, front.pivots, 0, front.pivots);
  L.diagonal() = L.diagonal().cwiseInverse().eval();
  return L;
}

/// L₂, the rows below.
MatrixXd SelectedInverse::rows_of(const Front& front) const {
  const double* panel = factor_.panel(static_cast<std::uint32_t>(&front - plan_.fronts.data()));
  return untiled(panel, front.pivots, front.pivot_rows(), front.below);
}

/// With L = (L₁; L₂) and Z₂ the inverse below: Y = L₂ L₁⁻¹, Z₂₁ = −Z₂ Y, Z₁ = L₁⁻ᵀ L₁⁻¹ − Yᵀ Z₂₁.
void SelectedInverse::invert(std::uint32_t f) {
  const Front& front = plan_.fronts[f];
  const MatrixXd L = pivots_of(front);
  MatrixXd inverse = MatrixXd::Identity(front.pivots, front.pivots);
  L.triangularView<Eigen::Lower>().solveInPlace(inverse);
  MatrixXd Z(front.pivots + front.below, front.pivots);
  auto top = Z.topRows(front.pivots);
  top.setZero();
  top.selfadjointView<Eigen::Lower>().rankUpdate(inverse.transpose());
  if (front.below > 0) {
    const MatrixXd Y = rows_of(front) * inverse.triangularView<Eigen::Lower>();
    auto bottom = Z.bottomRows(front.below);
    bottom.noalias() = -below(front) * Y;
    top.noalias() -= Y.transpose() * bottom;
  }
  top.triangularView<Eigen::StrictlyUpper>() = top.transpose();
  columns_[f] = std::move(Z);
}

/// Fronts that own one of the rows or are ancestors of one, and among these the paths of columns
/// first .. first + count − 1 to their roots.
std::vector<SelectedInverse::Use> SelectedInverse::find_use(std::span<const std::uint32_t> rows,
                                                            std::uint32_t first,
                                                            std::uint32_t count) const {
  std::vector<Use> use(plan_.fronts.size(), Use::none);
  const auto mark = [&](std::uint32_t column, Use as, auto&& goes_on) {
    for (std::uint32_t f = front_of_[position_[column]]; f != kNoFront && goes_on(use[f]);
         f = plan_.fronts[f].parent)
      use[f] = as;
  };
  for (const std::uint32_t row : rows)
    mark(row, Use::used, [](Use had) { return had == Use::none; });
  for (std::uint32_t c = 0; c < count; ++c)
    mark(first + c, Use::on_path, [](Use had) { return had != Use::on_path; });
  return use;
}

MatrixXd SelectedInverse::solve(std::span<const std::uint32_t> rows, std::uint32_t first,
                                std::uint32_t count) const {
  const std::vector<Use> use = find_use(rows, first, count);
  // Unknowns of the fronts in use, in the order of elimination.
  std::vector<std::uint32_t> number(plan_.order.size(), kNoFront);
  std::uint32_t size = 0;
  for (std::uint32_t f = 0; f < use.size(); ++f)
    for (std::uint32_t k = 0; use[f] != Use::none && k < plan_.fronts[f].pivots; ++k)
      number[plan_.fronts[f].first + k] = size++;
  MatrixXd x = MatrixXd::Zero(size, count);
  for (std::uint32_t c = 0; c < count; ++c) x(number[position_[first + c]], c) = 1;
  for (std::uint32_t f = 0; f < use.size(); ++f)
    if (use[f] == Use::on_path) solve_forward(plan_.fronts[f], number, x);
  for (auto f = static_cast<std::uint32_t>(use.size()); f-- > 0;)
    if (use[f] != Use::none) solve_backward(plan_.fronts[f], number, x);
  MatrixXd out(rows.size(), count);
  for (std::size_t k = 0; k < rows.size(); ++k)
    out.row(static_cast<Eigen::Index>(k)) = x.row(number[position_[rows[k]]]);
  return out;
}

void SelectedInverse::solve_forward(const Front& front, std::span<const std::uint32_t> number,
                                    MatrixXd& x) const {
  auto own = x.middleRows(number[front.first], front.pivots);
  pivots_of(front).triangularView<Eigen::Lower>().solveInPlace(own);
  if (front.below == 0) return;
  const MatrixXd left = rows_of(front) * own;
  const std::span<const std::uint32_t> below = rows_below(plan_, front);
  for (std::uint32_t k = 0; k < front.below; ++k) x.row(number[below[k]]) -= left.row(k);
}

void SelectedInverse::solve_backward(const Front& front, std::span<const std::uint32_t> number,
                                     MatrixXd& x) const {
  auto own = x.middleRows(number[front.first], front.pivots);
  if (front.below > 0) {
    const std::span<const std::uint32_t> below = rows_below(plan_, front);
    MatrixXd known(front.below, x.cols());
    for (std::uint32_t k = 0; k < front.below; ++k) known.row(k) = x.row(number[below[k]]);
    own.noalias() -= rows_of(front).transpose() * known;
  }
  pivots_of(front).triangularView<Eigen::Lower>().transpose().solveInPlace(own);
}

}  // namespace topograd::runtime::cpu
