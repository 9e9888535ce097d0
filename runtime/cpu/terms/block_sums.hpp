// Sums over the instances of each block: gradients from stored terms, Jᵀu and diagonal blocks from
// stored J.
#pragma once

#include "../tiles/pool.hpp"
#include "term_index.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// A number of each instance: scale * column[i], or scale if there is no column.
template <class T>
struct Stored {
  const T* column = nullptr;
  double scale = 0;
};

/// Contribution of one entry of a block slot to its block's sums: sums[target] += scale * a[i] *
/// b[i]; a missing column counts as 1, and a zero b makes the product zero.
template <class T>
struct Product {
  const T* a = nullptr;
  const T* b = nullptr;
  double scale = 1;
  std::uint32_t target = 0;
};

/// Products by block slot. In a block slot that is not fixed, the coordinate of the scalar is added
/// to the target.
template <class T>
using Products = std::vector<std::vector<Product<T>>>;

/// out[x index] += sums, for vectors over the unknowns. Blocks that are shared by many instances
/// are summed in fixed segments. The bits are the same for any number of threads.
template <class T>
void add_to_vector(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                   const Products<T>& products, T* out);

/// J of one term, by residual row and parameter slot.
template <class T>
struct StoredJacobian {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<Stored<T>> entries;  ///< row-major; scale 0 is a structural zero

  const Stored<T>& at(std::size_t row, std::size_t column) const {
    return entries[row * columns + column];
  }
};

/// out[packed index] += the diagonal blocks of JᵀJ (BlockLayout::Block::packed).
template <class T>
void add_diagonal_blocks(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                         const StoredJacobian<T>& jacobian, T* out);

/// out[x index] += the diagonal of JᵀJ: the bits of the diagonals of add_diagonal_blocks().
template <class T>
void add_diagonal(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                  const StoredJacobian<T>& jacobian, T* out);

}  // namespace topograd::runtime::cpu
