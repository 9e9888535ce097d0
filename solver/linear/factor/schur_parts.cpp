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

constexpr std::size_t kEliminatedPerRange = 64;
constexpr std::size_t kPanelsPerRange = 4;

SchurLayout layout_of(const SparseMatrix& lower, const Elimination& elimination) {
  const auto columns = static_cast<std::uint32_t>(lower.cols());
  const auto positions = SchurLayout::positions_of(elimination.blocks, columns);
  std::vector<std::vector<std::uint32_t>> lists(elimination.blocks.size());
  const auto add = [&](std::uint32_t b, std::uint32_t kept) {
    std::vector<std::uint32_t>& list = lists[b];
    if (list.empty() || list.back() != kept) list.push_back(kept);  // other columns of the block
  };
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      const SchurLayout::Position &a = positions[c],
                                  &b = positions[static_cast<std::uint32_t>(it.row())];
      if ((a.block == SchurLayout::kNone) == (b.block == SchurLayout::kNone)) continue;
      if (a.block != SchurLayout::kNone) add(a.block, b.at);
      if (b.block != SchurLayout::kNone) add(b.block, a.at);
    }
  }
  Lists<std::uint32_t> neighbours;
  for (std::vector<std::uint32_t>& list : lists) {
    std::sort(list.begin(), list.end());
    neighbours.items.insert(neighbours.items.end(), list.begin(),
                            std::unique(list.begin(), list.end()));
    neighbours.close();
  }
  return {elimination.blocks, columns, std::move(neighbours)};
}

}  // namespace

SchurPositions::SchurPositions(const SparseMatrix& lower, const SchurLayout& layout)
    : E(layout.E.back(), kNoEntry), C(layout.C.back(), kNoEntry) {
  const auto columns = static_cast<std::uint32_t>(lower.cols());
  const auto positions = SchurLayout::positions_of(layout.blocks, columns);
  const auto set_E = [&](const SchurLayout::Position& in, std::uint32_t kept,
                         std::uint32_t position) {
    const auto list = layout.neighbours[in.block];
    const auto at = std::lower_bound(list.begin(), list.end(), kept) - list.begin();
    E[layout.E[in.block] + static_cast<std::size_t>(at) * layout.blocks[in.block].width + in.at] =
        position;
  };
  for (std::uint32_t k = 0; k < columns; ++k) {
    const SchurLayout::Position& column = positions[k];
    for (auto p = static_cast<std::uint32_t>(lower.outerIndexPtr()[k]);
         p < static_cast<std::uint32_t>(lower.outerIndexPtr()[k + 1]); ++p) {
      const SchurLayout::Position& row =
          positions[static_cast<std::uint32_t>(lower.innerIndexPtr()[p])];
      const std::uint32_t b = column.block;
      if (b == SchurLayout::kNone && row.block == SchurLayout::kNone) {
        B.items.push_back({row.at, p});
      } else if (b == SchurLayout::kNone) {
        set_E(row, column.at, p);
      } else if (row.block == SchurLayout::kNone) {
        set_E(column, row.at, p);
      } else {
        C[layout.C[b] + std::size_t{column.at} * layout.blocks[b].width + row.at] = p;
      }
    }
    if (column.block == SchurLayout::kNone) B.close();
  }
}

SchurParts::SchurParts(const SparseMatrix& lower, const Elimination& elimination, int threads)
    : layout_(layout_of(lower, elimination)),
      positions_(lower, layout_),
      pool_(threads),
      E_(layout_.E.back()),
      W_(layout_.E.back()),
      inverse_(layout_.C.back()) {}

template <int rows>
bool SchurParts::eliminate_block(const double* values, std::uint32_t b) {
  using Square = Eigen::Matrix<double, rows, rows>;
  using Wide = Eigen::Matrix<double, rows, Eigen::Dynamic>;
  const auto value = [&](std::uint32_t position) {
    return position == SchurPositions::kNoEntry ? 0.0 : values[position];
  };
  const Eigen::Index w = layout_.blocks[b].width;
  const auto f = static_cast<Eigen::Index>(layout_.neighbours.size(b));
  double* const e = E_.data() + layout_.E[b];
  double* const c = inverse_.data() + layout_.C[b];
  const std::uint32_t* const E_position = positions_.E.data() + layout_.E[b];
  const std::uint32_t* const C_position = positions_.C.data() + layout_.C[b];
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
