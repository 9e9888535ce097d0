// The parts of a matrix in the elimination of blocks: their positions, and the eliminated results.
#include "schur_parts.hpp"

#include "panel.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace topograd {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};
constexpr std::size_t kEliminatedPerRange = 64;
constexpr std::size_t kPanelsPerRange = 4;

}  // namespace

SchurLayout::SchurLayout(const SparseMatrix& lower, const Elimination& elimination)
    : blocks(elimination.blocks),
      block_of_(static_cast<std::size_t>(lower.cols()), kNoEntry),
      place_(block_of_.size()) {
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (std::uint32_t k = 0; k < blocks[b].width; ++k) {
      block_of_[blocks[b].first + k] = b;
      place_[blocks[b].first + k] = k;
    }
  }
  for (std::uint32_t c = 0; c < block_of_.size(); ++c) {
    if (block_of_[c] != kNoEntry) continue;
    place_[c] = static_cast<std::uint32_t>(column.size());
    column.push_back(c);
  }
  find_neighbours(lower);
  find_uses();
  find_panels();
  place_entries(lower);
}

void SchurLayout::find_neighbours(const SparseMatrix& lower) {
  std::vector<std::vector<std::uint32_t>> lists(blocks.size());
  const auto add = [&](std::uint32_t b, std::uint32_t kept) {
    std::vector<std::uint32_t>& list = lists[b];
    if (list.empty() || list.back() != kept) list.push_back(kept);  // other columns of the block
  };
  for (std::uint32_t c = 0; c < block_of_.size(); ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const auto r = static_cast<std::uint32_t>(it.row());
      if ((block_of_[c] == kNoEntry) == (block_of_[r] == kNoEntry)) continue;
      if (block_of_[c] != kNoEntry) add(block_of_[c], place_[r]);
      if (block_of_[r] != kNoEntry) add(block_of_[r], place_[c]);
    }
  }
  for (std::vector<std::uint32_t>& list : lists) {
    std::sort(list.begin(), list.end());
    neighbours.items.insert(neighbours.items.end(), list.begin(),
                            std::unique(list.begin(), list.end()));
    neighbours.close();
  }
}

void SchurLayout::find_uses() {
  std::vector<std::vector<Use>> by_column(column.size());
  for (std::uint32_t b = 0; b < blocks.size(); ++b)
    for (std::uint32_t k = 0; k < neighbours.size(b); ++k)
      by_column[neighbours[b][k]].push_back({b, k});
  for (const std::vector<Use>& of : by_column) {
    uses.items.insert(uses.items.end(), of.begin(), of.end());
    uses.close();
  }
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

void SchurLayout::place_entries(const SparseMatrix& lower) {
  std::size_t e = 0, c = 0;
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    E.push_back(e);
    C.push_back(c);
    e += blocks[b].width * neighbours.size(b);
    c += std::size_t{blocks[b].width} * blocks[b].width;
  }
  E_position.assign(e, kNoEntry);
  C_position.assign(c, kNoEntry);
  const auto set_E = [&](std::uint32_t in_block, std::uint32_t kept, std::uint32_t position) {
    const std::uint32_t b = block_of_[in_block];
    const auto list = neighbours[b];
    const auto at = std::lower_bound(list.begin(), list.end(), place_[kept]) - list.begin();
    E_position[E[b] + static_cast<std::size_t>(at) * blocks[b].width + place_[in_block]] = position;
  };
  for (std::uint32_t k = 0; k < block_of_.size(); ++k) {
    for (auto p = static_cast<std::uint32_t>(lower.outerIndexPtr()[k]);
         p < static_cast<std::uint32_t>(lower.outerIndexPtr()[k + 1]); ++p) {
      const auto r = static_cast<std::uint32_t>(lower.innerIndexPtr()[p]);
      const std::uint32_t b = block_of_[k];
      if (b == kNoEntry && block_of_[r] == kNoEntry) {
        B.items.push_back({place_[r], p});
      } else if (b == kNoEntry) {
        set_E(r, k, p);
      } else if (block_of_[r] == kNoEntry) {
        set_E(k, r, p);
      } else {
        C_position[C[b] + std::size_t{place_[k]} * blocks[b].width + place_[r]] = p;
      }
    }
    if (block_of_[k] == kNoEntry) B.close();
  }
}

SchurParts::SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads)
    : layout_(lower, elimination),
      pool_(threads),
      E_(layout_.E_position.size()),
      W_(E_.size()),
      inverse_(layout_.C_position.size()) {}

template <int rows>
bool SchurParts::eliminate_block(const double* values, std::uint32_t b) {
  using Square = Eigen::Matrix<double, rows, rows>;
  using Wide = Eigen::Matrix<double, rows, Eigen::Dynamic>;
  const auto value = [&](std::uint32_t position) {
    return position == kNoEntry ? 0.0 : values[position];
  };
  const Eigen::Index w = layout_.blocks[b].width;
  const auto f = static_cast<Eigen::Index>(layout_.neighbours.size(b));
  double* const e = E_.data() + layout_.E[b];
  double* const c = inverse_.data() + layout_.C[b];
  const std::uint32_t* const E_position = layout_.E_position.data() + layout_.E[b];
  const std::uint32_t* const C_position = layout_.C_position.data() + layout_.C[b];
  for (Eigen::Index k = 0; k < w * f; ++k) e[k] = value(E_position[k]);
  for (Eigen::Index k = 0; k < w * w; ++k) c[k] = value(C_position[k]);
  Eigen::Map<Square> C(c, w, w);
  const Eigen::LLT<Square, Eigen::Lower> factor(C);
  C = factor.solve(Square::Identity(w, w));
  Eigen::Map<Wide>(W_.data() + layout_.E[b], w, f) = C.lazyProduct(Eigen::Map<Wide>(e, w, f));
  return factor.info() == Eigen::Success;
}

bool SchurParts::eliminate(const double* values) {
  std::atomic<bool> definite = true;
  pool_.for_ranges(
      layout_.blocks.size(), kEliminatedPerRange, [&](std::size_t begin, std::size_t end) {
        for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
          const bool in_space = layout_.blocks[b].width == 3;  // points
          const bool positive =
              in_space ? eliminate_block<3>(values, b) : eliminate_block<Eigen::Dynamic>(values, b);
          if (!positive) definite = false;
        }
      });
  return definite;
}

Vector SchurParts::reduce(const Vector& right) const {
  Vector out(static_cast<Eigen::Index>(kept()));
  const std::span<const std::uint32_t> panels = layout_.panels;
  pool_.for_ranges(panels.size() - 1, kPanelsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const std::uint32_t first = panels[p], columns = panels[p + 1] - first;
      std::array<double, Panel::kMostColumns> sums;
      for (std::uint32_t j = 0; j < columns; ++j) sums[j] = right[layout_.column[first + j]];
      for (const SchurLayout::Use& use : layout_.uses[first]) {
        const auto [start, width] = layout_.blocks[use.block];
        const double* w = W_.data() + layout_.E[use.block] + std::size_t{use.at} * width;
        for (std::uint32_t j = 0; j < columns; ++j, w += width) {
          double product = 0;
          for (std::uint32_t i = 0; i < width; ++i) product += w[i] * right[start + i];
          sums[j] -= product;
        }
      }
      std::copy_n(sums.begin(), columns, out.data() + first);
    }
  });
  return out;
}

Vector SchurParts::expand(const Vector& kept, const Vector& right) const {
  Vector out(right.size());
  for (std::size_t c = 0; c < layout_.column.size(); ++c)
    out[layout_.column[c]] = kept[static_cast<Eigen::Index>(c)];
  const std::size_t blocks = layout_.blocks.size();
  pool_.for_ranges(blocks, kEliminatedPerRange, [&](std::size_t begin, std::size_t end) {
    for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
      const auto [first, width] = layout_.blocks[b];
      Vector x = inverse(b) * right.segment(first, width);
      const std::span<const std::uint32_t> columns = layout_.neighbours[b];
      const Block of = solved_coupling(b);
      for (std::size_t k = 0; k < columns.size(); ++k)
        x -= of.col(static_cast<Eigen::Index>(k)) * kept[columns[k]];
      out.segment(first, width) = x;
    }
  });
  return out;
}

}  // namespace topograd
