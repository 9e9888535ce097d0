// Eigen's sparse matrices as the factorisation reads them, and parts of them.
#pragma once

#include "../../../runtime/factor/fill_order.hpp"
#include "elimination.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace topograd {

/// The pattern of a compressed lower triangle, in the matrix's memory.
inline runtime::LowerPattern pattern_of(const SparseMatrix& lower) {
  return {{lower.outerIndexPtr(), static_cast<std::size_t>(lower.cols()) + 1},
          {lower.innerIndexPtr(), static_cast<std::size_t>(lower.nonZeros())}};
}

/// Its numbers, in the order of the pattern.
inline std::span<const double> values_of(const SparseMatrix& lower) {
  return {lower.valuePtr(), static_cast<std::size_t>(lower.nonZeros())};
}

/// A compressed lower triangle A with rows and columns scaled: S A S with S = diag(scale).
inline SparseMatrix scaled_by(const Eigen::VectorXd& scale, const SparseMatrix& lower) {
  SparseMatrix out = lower;
  double* const values = out.valuePtr();
  for (Eigen::Index c = 0; c < out.cols(); ++c)
    for (int at = out.outerIndexPtr()[c]; at < out.outerIndexPtr()[c + 1]; ++at)
      values[at] *= scale[c] * scale[out.innerIndexPtr()[at]];
  return out;
}

/// The rows and columns of a lower triangle that `kept` lists.
inline SparseMatrix lower_part(const SparseMatrix& lower, std::span<const std::uint32_t> kept) {
  constexpr int kAbsent = -1;
  std::vector<int> position(static_cast<std::size_t>(lower.cols()), kAbsent);
  for (std::size_t k = 0; k < kept.size(); ++k) position[kept[k]] = static_cast<int>(k);
  std::vector<Eigen::Triplet<double> > entries;
  for (const std::uint32_t c : kept)
    for (SparseMatrix::InnerIterator it(lower, static_cast<Eigen::Index>(c)); it; ++it)
      if (const int row = position[static_cast<std::size_t>(it.row())]; row != kAbsent)
        entries.emplace_back(row, position[c], it.value());
  const auto size = static_cast<Eigen::Index>(kept.size());
  SparseMatrix out(size, size);
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

/// By coordinate: the least coordinate of its component.
inline std::vector<std::uint32_t> components(const SparseMatrix& lower) {
  std::vector<std::uint32_t> parent(static_cast<std::size_t>(lower.cols()));
  std::iota(parent.begin(), parent.end(), 0U);
  const auto root = [&](std::uint32_t k) {
    while (parent[k] != k) k = parent[k] = parent[parent[k]];
    return k;
  };
  for (Eigen::Index c = 0; c < lower.cols(); ++c) {
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it) {
      if (it.value() == 0) continue;
      const std::uint32_t a = root(static_cast<std::uint32_t>(c));
      const std::uint32_t b = root(static_cast<std::uint32_t>(it.row()));
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  for (std::uint32_t k = 0; k < parent.size(); ++k) parent[k] = root(k);
  return parent;
}

}  // namespace topograd
