// Parameter blocks whose own block of JᵀJ is singular.
#include "undetermined_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

constexpr std::uint32_t kWidest = kWidestTested;
// A block with unit diagonal is singular if a pivot is at or below this.
constexpr double kLeastPivot = 1e-12;

}  // namespace

/// Cholesky of a matrix (lower triangle, row by row) whose diagonal is scaled to 1.
bool is_singular(std::array<double, kWidest * kWidest>& a, std::uint32_t n) {
  std::array<double, kWidest> scale{};
  for (std::uint32_t i = 0; i < n; ++i) {
    if (!(a[i * kWidest + i] > 0)) return true;
    scale[i] = 1 / std::sqrt(a[i * kWidest + i]);
  }
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j <= i; ++j) a[i * kWidest + j] *= scale[i] * scale[j];
  for (std::uint32_t j = 0; j < n; ++j) {
    for (std::uint32_t i = j; i < n; ++i) {
      double sum = a[i * kWidest + j];
      for (std::uint32_t k = 0; k < j; ++k) sum -= a[i * kWidest + k] * a[j * kWidest + k];
      if (i == j && !(sum > kLeastPivot)) return true;
      a[i * kWidest + j] = i == j ? std::sqrt(sum) : sum / a[j * kWidest + j];
    }
  }
  return false;
}

UndeterminedBlocks::UndeterminedBlocks(const runtime::Model& model, const NormalEquations& normal) {
  const std::span<const std::uint32_t> free = normal.free_scalars();
  std::size_t next = 0;
  for (const runtime::ParameterArray& array : model.arrays) {
    const std::uint64_t end = array.offset + array.blocks * array.width;
    while (next < free.size() && free[next] < end) {
      const std::size_t first = next;
      const std::uint64_t block = (free[first] - array.offset) / array.width;
      const std::uint64_t last = array.offset + (block + 1) * array.width;
      while (next < free.size() && free[next] < last) ++next;
      const auto width = static_cast<std::uint32_t>(next - first);
      if (width < 2 || width > kWidest) continue;
      blocks_.push_back({static_cast<std::uint32_t>(first), width, positions_.size()});
      for (std::uint32_t i = 0; i < width; ++i) {
        for (std::uint32_t j = 0; j <= i; ++j) {
          const auto rows = normal.rows().begin();
          const auto begin = rows + normal.starts()[first + j];
          const auto stop = rows + normal.starts()[first + j + 1];
          const auto row = static_cast<std::int32_t>(first + i);
          const auto at = std::lower_bound(begin, stop, row);
          positions_.push_back(at != stop && *at == row ? static_cast<std::int32_t>(at - rows)
                                                        : -1);
        }
      }
    }
  }
}

void UndeterminedBlocks::diagonal(const NormalEquations& normal, std::vector<double>& out) const {
  out.resize(normal.size());
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = normal.diagonal(k);
  std::array<double, kWidest * kWidest> entries{};
  for (const Block& block : blocks_) {
    const std::int32_t* position = &positions_[block.entries];
    for (std::uint32_t i = 0; i < block.width; ++i)
      for (std::uint32_t j = 0; j <= i; ++j, ++position)
        entries[i * kWidest + j] = *position < 0 ? 0.0 : normal.values()[*position];
    if (!is_singular(entries, block.width)) continue;
    const auto begin = out.begin() + block.first;
    std::fill_n(begin, block.width, *std::max_element(begin, begin + block.width));
  }
}

}  // namespace topograd
