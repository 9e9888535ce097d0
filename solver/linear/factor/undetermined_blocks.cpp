// Coordinates of a parameter block whose columns of the Jacobian depend on each other.
#include "undetermined_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

constexpr std::uint32_t kWidest = kWidestTested;
// A column of norm 1 depends on others if the square of what they leave of it is at or below this.
constexpr double kLeastPivot = 1e-12;
// It depends on those that it has at least this much of.
constexpr double kLeastShare = 1e-3;

/// Scales the diagonal to 1, except where it is 0.
void scale_to_one(BlockMatrix& a, std::uint32_t n) {
  std::array<double, kWidest> scale{};
  for (std::uint32_t i = 0; i < n; ++i)
    if (a[i * kWidest + i] > 0) scale[i] = 1 / std::sqrt(a[i * kWidest + i]);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j <= i; ++j) a[i * kWidest + j] *= scale[i] * scale[j];
}

/// Cholesky that leaves out columns which depend on those before them; their diagonal becomes 0.
/// Rows of L are complete for these columns, too. Returns true if there are such.
bool factor_independent(BlockMatrix& a, std::uint32_t n) {
  bool depends = false;
  for (std::uint32_t j = 0; j < n; ++j) {
    for (std::uint32_t i = j; i < n; ++i) {
      double sum = a[i * kWidest + j];
      for (std::uint32_t k = 0; k < j; ++k) sum -= a[i * kWidest + k] * a[j * kWidest + k];
      if (i == j) {
        a[j * kWidest + j] = sum > kLeastPivot ? std::sqrt(sum) : 0;
      } else {
        a[i * kWidest + j] = a[j * kWidest + j] > 0 ? sum / a[j * kWidest + j] : 0;
      }
    }
    depends = depends || !(a[j * kWidest + j] > 0);
  }
  return depends;
}

/// The coefficients of dependent column j in the independent ones before it.
std::array<double, kWidest> coefficients(const BlockMatrix& L, std::uint32_t j) {
  std::array<double, kWidest> c{};
  for (std::uint32_t i = j; i-- > 0;) {
    if (!(L[i * kWidest + i] > 0)) continue;
    double sum = L[j * kWidest + i];
    for (std::uint32_t k = i + 1; k < j; ++k) sum -= L[k * kWidest + i] * c[k];
    c[i] = sum / L[i * kWidest + i];
  }
  return c;
}

}  // namespace

void raise_dependent(BlockMatrix& matrix, std::uint32_t n, double* diagonal) {
  scale_to_one(matrix, n);
  if (!factor_independent(matrix, n)) return;
  std::array<std::uint32_t, kWidest> set{};  // the first coordinate of those that depend together
  for (std::uint32_t j = 0; j < n; ++j) {
    set[j] = j;
    if (matrix[j * kWidest + j] > 0) continue;
    const std::array<double, kWidest> c = coefficients(matrix, j);
    for (std::uint32_t i = 0; i < j; ++i) {
      if (!(std::abs(c[i]) > kLeastShare)) continue;
      const auto [to, from] = std::minmax(set[i], set[j]);
      std::replace(set.begin(), set.begin() + j + 1, std::uint32_t{from}, std::uint32_t{to});
    }
  }
  std::array<double, kWidest> largest{};
  for (std::uint32_t k = 0; k < n; ++k) largest[set[k]] = std::max(largest[set[k]], diagonal[k]);
  for (std::uint32_t k = 0; k < n; ++k) diagonal[k] = largest[set[k]];
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
  BlockMatrix entries{};
  for (const Block& block : blocks_) {
    const std::int32_t* position = &positions_[block.entries];
    for (std::uint32_t i = 0; i < block.width; ++i)
      for (std::uint32_t j = 0; j <= i; ++j, ++position)
        entries[i * kWidest + j] = *position < 0 ? 0.0 : normal.values()[*position];
    raise_dependent(entries, block.width, &out[block.first]);
  }
}

}  // namespace topograd
