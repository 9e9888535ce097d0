// The Schur complement of eliminated blocks: its layout, pattern, sum and factor.
#include "complement.hpp"

#include "panel.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace topograd {

std::vector<SchurLayout::Position> SchurLayout::positions_of(
    const std::vector<Elimination::Block>& eliminated, std::size_t columns) {
  std::vector<Position> positions(columns, Position{kNone, 0});
  for (std::uint32_t b = 0; b < eliminated.size(); ++b)
    for (std::uint32_t k = 0; k < eliminated[b].width; ++k)
      positions[eliminated[b].first + k] = {b, k};
  std::uint32_t kept = 0;
  for (Position& position : positions)
    if (position.block == kNone) position.at = kept++;
  return positions;
}

SchurLayout::SchurLayout(const std::vector<Elimination::Block>& eliminated, std::size_t columns,
                         Lists<std::uint32_t> meet)
    : blocks(eliminated), neighbours(std::move(meet)) {
  const std::vector<Position> positions = positions_of(blocks, columns);
  for (std::uint32_t c = 0; c < columns; ++c)
    if (positions[c].block == kNone) column.push_back(c);
  std::size_t e = 0, c = 0;
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    E.push_back(e);
    C.push_back(c);
    e += blocks[b].width * neighbours.size(b);
    c += std::size_t{blocks[b].width} * blocks[b].width;
  }
  E.push_back(e);
  C.push_back(c);
  find_uses();
  find_panels();
}

void SchurLayout::find_uses() {
  std::vector<std::size_t> next(column.size() + 1, 0);
  for (const std::uint32_t kept : neighbours.items) ++next[kept + 1];
  for (std::size_t k = 0; k < column.size(); ++k) next[k + 1] += next[k];
  uses.starts = next;
  uses.items.resize(neighbours.items.size());
  for (std::uint32_t b = 0; b < blocks.size(); ++b)
    for (std::uint32_t k = 0; k < neighbours.size(b); ++k)
      uses.items[next[neighbours[b][k]]++] = {b, k};
}

void SchurLayout::find_panels() {
  const auto follows = [](const Use& a, const Use& b) {
    return a.block == b.block && a.at + 1 == b.at;
  };
  const auto kept = static_cast<std::uint32_t>(column.size());
  for (std::uint32_t c = 0; c < kept; ++c) {
    if (c == 0 || c - panels.back() == Panel::kMostColumns ||
        !std::ranges::equal(uses[c - 1], uses[c], follows))
      panels.push_back(c);
  }
  panels.push_back(kept);
}

namespace {

constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};
/// A range of panels has one more panel for this many rows, so that clearing a panel stays cheap.
constexpr std::size_t kRowsPerPanel = 2048;
/// Couplings are asked for so many uses before they are read: those of a panel lie far apart.
constexpr std::size_t kUsesAhead = 4;
constexpr std::size_t kMostExpected = 96;  ///< numbers of a use

}  // namespace

Complement::Complement(const SchurLayout& layout, Lists<Entry> B, const runtime::cpu::CpuWork& work)
    : layout_(layout), B_(std::move(B)), pool_(work.threads) {
  std::uint32_t first = 0;
  for (const Elimination::Block& block : layout.blocks) {
    first_.push_back(first);
    first += block.width;
  }
  find_pattern();
  if (!layout.column.empty()) factor_ = make_sparse_factorization(matrix_, work);
}

/// Kept columns that meet, directly or through a block. Columns of a panel meet the same blocks.
void Complement::find_pattern() {
  const auto n = static_cast<std::uint32_t>(layout_.column.size());
  std::vector<int> starts{0}, rows;
  std::vector<std::uint32_t> seen(n, kNoColumn), shared, own;
  for (std::size_t p = 0; p + 1 < layout_.panels.size(); ++p) {
    const std::uint32_t first = layout_.panels[p], last = layout_.panels[p + 1];
    shared.clear();
    for (const SchurLayout::Use& use : layout_.uses[first])
      for (const std::uint32_t r : layout_.neighbours[use.block].subspan(use.at))
        if (std::exchange(seen[r], first) != first) shared.push_back(r);
    for (std::uint32_t c = first; c < last; ++c) {
      own = shared;
      for (const Entry& entry : B_[c]) own.push_back(entry.row);
      std::ranges::sort(own);
      const auto rest = std::ranges::unique(own);
      for (auto r = std::ranges::lower_bound(own.begin(), rest.begin(), c); r != rest.begin(); ++r)
        rows.push_back(static_cast<int>(*r));
      starts.push_back(static_cast<int>(rows.size()));
    }
  }
  const std::vector<double> zeros(rows.size());
  matrix_ = Eigen::Map<const SparseMatrix>(n, n, static_cast<Eigen::Index>(rows.size()),
                                           starts.data(), rows.data(), zeros.data());
}

bool Complement::factor(const double* B, const Couplings& couplings, const RightSide* right_side) {
  const std::span<const std::uint32_t> panels = layout_.panels;
  const std::size_t grain = 1 + layout_.column.size() / kRowsPerPanel;
  pool_.for_ranges(panels.size() - 1, grain, [&](std::size_t begin, std::size_t end) {
    Panel panel;
    for (std::size_t k = begin; k < end; ++k)
      sum_panel(B, couplings, right_side, panels[k], panels[k + 1], panel);
  });
  return factor_ == nullptr || factor_->factor(matrix_);
}

double Complement::products() const {
  double sum = 0;
  for (std::size_t b = 0; b < layout_.blocks.size(); ++b) {
    const auto f = static_cast<double>(layout_.neighbours.size(b));
    sum += f * f * layout_.blocks[b].width;
  }
  return sum;
}

Eigen::VectorXd Complement::solve(const Eigen::VectorXd& right) const {
  return factor_ == nullptr ? Eigen::VectorXd(right.size()) : factor_->solve(right);
}

void Complement::expect(const SchurLayout::Use& use, const Couplings& couplings) const {
  const std::size_t width = layout_.blocks[use.block].width;
  const std::size_t first = layout_.E[use.block] + use.at * width;
  const std::size_t count = std::min(layout_.E[use.block + 1] - first, kMostExpected);
  expect_numbers(couplings.left + first, count);
  if (couplings.right != couplings.left) expect_numbers(couplings.right + first, count);
}

void Complement::sum_panel(const double* B, const Couplings& couplings, const RightSide* right_side,
                           std::uint32_t first, std::uint32_t last, Panel& panel) {
  const std::size_t kept = layout_.column.size();  // row of the right side
  panel.open(kept + 1, last - first);
  for (std::uint32_t c = first; c < last; ++c)
    for (const Entry& entry : B_[c]) panel.at(entry.row, c - first) = B[entry.position];
  const std::span<const SchurLayout::Use> uses = layout_.uses[first];
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const SchurLayout::Use& use = uses[u];
    if (u + kUsesAhead < uses.size()) expect(uses[u + kUsesAhead], couplings);
    const std::size_t depth = layout_.blocks[use.block].width, at = layout_.E[use.block];
    const std::span<const std::uint32_t> rows = layout_.neighbours[use.block];
    const auto part = [&](const double* values, std::size_t k) {
      return Strided{values + at + k * depth, 1, depth};
    };
    panel.set_right(part(couplings.right, use.at), static_cast<std::uint32_t>(depth), -1);
    panel.add(rows.subspan(use.at), part(couplings.left, use.at));
    if (right_side != nullptr) {
      const Panel::Run last_row{static_cast<std::uint32_t>(kept), 0, 1};
      panel.add({&last_row, 1}, {right_side->y + first_[use.block], 1, depth});
    }
  }
  const int* const starts = matrix_.outerIndexPtr();
  for (std::uint32_t c = first; c < last; ++c) {
    for (int k = starts[c]; k < starts[c + 1]; ++k) {
      double& entry = panel.at(static_cast<std::size_t>(matrix_.innerIndexPtr()[k]), c - first);
      matrix_.valuePtr()[k] = std::exchange(entry, 0.0);
    }
    if (right_side != nullptr) right_side->right[c] += panel.at(kept, c - first);
  }
  panel.clear(kept);
  for (std::uint32_t c = first; c < last; ++c) panel.clear(c);  // above the diagonal
}

}  // namespace topograd
