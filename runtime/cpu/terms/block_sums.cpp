// Sums over blocks: short lists whole, long ones in segments.
#include "block_sums.hpp"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

namespace topograd::runtime::cpu {
namespace {

// Blocks of one range of work: of few blocks, some may have most of the instances.
constexpr std::size_t kMostBlocksPerRange = 2048, kLeastBlocksPerRange = 16, kRanges = 512;

// Adder::size(width) is the number of a block's sums, Adder::offset(block) their position;
// Adder::add(block, begin, end, sums) adds the entries [begin, end) to the sums.
template <class T, class Adder>
void add_short_lists(Pool& pool, const BlockLists& lists, const BlockLayout& layout,
                     const Adder& adder, T* out) {
  const std::size_t grain =
      std::clamp(lists.blocks.size() / kRanges, kLeastBlocksPerRange, kMostBlocksPerRange);
  pool.for_ranges(lists.blocks.size(), grain, [&](std::size_t first, std::size_t last) {
    std::vector<double> sums;
    for (std::size_t k = first; k < last; ++k) {
      const std::uint32_t begin = lists.starts[k], end = lists.starts[k + 1];
      if (end - begin > kLongList) continue;
      const BlockLayout::Block block = layout.block(lists.blocks[k]);
      sums.assign(adder.size(block.width), 0.0);
      adder.add(block, begin, end, sums);
      T* const target = out + adder.offset(block);
      for (std::size_t j = 0; j < sums.size(); ++j) target[j] += static_cast<T>(sums[j]);
    }
  });
}

template <class T, class Adder>
void add_long_lists(Pool& pool, const BlockLists& lists, const BlockLayout& layout,
                    const Adder& adder, T* out) {
  const std::vector<ListSegment>& segments = lists.segments;
  std::vector<std::vector<double>> partial(segments.size());
  pool.for_ranges(segments.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t s = first; s < last; ++s) {
      const BlockLayout::Block block = layout.block(lists.blocks[segments[s].block]);
      partial[s].assign(adder.size(block.width), 0.0);
      adder.add(block, segments[s].begin, segments[s].end, partial[s]);
    }
  });
  for (std::size_t s = 0; s < segments.size();) {
    const std::uint32_t block = segments[s].block;
    std::vector<double> sums(partial[s].size());
    for (; s < segments.size() && segments[s].block == block; ++s) {
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += partial[s][j];
    }
    T* const target = out + adder.offset(layout.block(lists.blocks[block]));
    for (std::size_t j = 0; j < sums.size(); ++j) target[j] += static_cast<T>(sums[j]);
  }
}

template <class T, class Adder>
void add_all(Pool& pool, const BlockLists& lists, const BlockLayout& layout, const Adder& adder,
             T* out) {
  add_short_lists(pool, lists, layout, adder, out);
  add_long_lists(pool, lists, layout, adder, out);
}

template <class T>
double value(const Product<T>& p, std::uint32_t i) {
  double v = p.scale;
  if (p.a != nullptr) v *= p.a[i];
  if (p.b != nullptr) v = p.b[i] == 0 ? 0 : v * p.b[i];
  return v;
}

template <class T>
struct ProductAdder {
  const TermIndex& index;
  const Products<T>& products;

  void add(const BlockLayout::Block& block, std::uint32_t begin, std::uint32_t end,
           std::span<double> sums) const {
    const BlockLists& lists = index.block_lists;
    for (std::uint32_t e = begin; e < end; ++e) {
      const std::uint32_t i = lists.instance(lists.entries[e]),
                          r = lists.block_slot(lists.entries[e]);
      const BlockSlot& block_slot = index.block_slots[r];
      const std::uint32_t first =
          block_slot.fixed ? 0 : block_slot.base[i] - static_cast<std::uint32_t>(block.first);
      for (const Product<T>& p : products[r]) sums[first + p.target] += value(p, i);
    }
  }
};

// Products of block slots that fill all sums of their blocks equally often: product k of a block
// slot is added to sum k % N, with N sums. If the compiler knows N, they stay in registers.
template <class T>
struct ArrangedAdder {
  const TermIndex& index;
  const Products<T>& products;

  void add(const BlockLayout::Block&, std::uint32_t begin, std::uint32_t end,
           std::span<double> sums) const {
    switch (sums.size()) {
      case 1: return add_known<1>(begin, end, sums);
      case 2: return add_known<2>(begin, end, sums);
      case 3: return add_known<3>(begin, end, sums);
      case 4: return add_known<4>(begin, end, sums);
      case 6: return add_known<6>(begin, end, sums);
      case 9: return add_known<9>(begin, end, sums);
      case 10: return add_known<10>(begin, end, sums);
      case 21: return add_known<21>(begin, end, sums);
      case 45: return add_known<45>(begin, end, sums);
      default: return add_to(sums.size(), begin, end, sums.data());
    }
  }

 private:
  template <std::size_t N>
  void add_known(std::uint32_t begin, std::uint32_t end, std::span<double> sums) const {
    double local[N] = {};
    add_to(std::integral_constant<std::size_t, N>(), begin, end, local);
    for (std::size_t k = 0; k < N; ++k) sums[k] += local[k];
  }

  /// Asks for the numbers of an entry.
  void expect(std::uint32_t entry) const {
    const std::uint32_t i = index.block_lists.instance(entry);
    for (const Product<T>& p : products[index.block_lists.block_slot(entry)]) {
      __builtin_prefetch(p.a + i);
      if (p.b != nullptr && p.b != p.a) __builtin_prefetch(p.b + i);
    }
  }

  static constexpr std::uint32_t kLongest = 32, kAhead = 8;

  template <class Count>
  void add_to(Count n, std::uint32_t begin, std::uint32_t end, double* sums) const {
    const BlockLists& lists = index.block_lists;
    const bool far_apart = end - begin > kLongest;  // else the lists of near blocks are near
    for (std::uint32_t e = begin; e < end; ++e) {
      if (far_apart && e + kAhead < end) expect(lists.entries[e + kAhead]);
      const std::uint32_t i = lists.instance(lists.entries[e]);
      const std::vector<Product<T>>& block_slot = products[lists.block_slot(lists.entries[e])];
      const Product<T>* const last = block_slot.data() + block_slot.size();
      for (const Product<T>* p = block_slot.data(); p != last; p += n) {
        if (p->b != nullptr) {
          for (std::size_t k = 0; k < n; ++k) {
            const double b = p[k].b[i];
            sums[k] += b == 0 ? 0.0 : p[k].scale * p[k].a[i] * b;
          }
        } else {
          for (std::size_t k = 0; k < n; ++k) sums[k] += p[k].scale * p[k].a[i];
        }
      }
    }
  }
};

// Sorts the products of a block slot for ArrangedAdder; false if they do not fit it.
template <class T>
bool arrange(std::vector<Product<T>>& block_slot, std::size_t n) {
  if (block_slot.size() % n != 0) return false;
  for (Product<T>& p : block_slot) {
    if (p.a == nullptr) std::swap(p.a, p.b);
    if (p.a == nullptr) return false;
  }
  std::vector<Product<T>> arranged(block_slot.size());
  std::vector<std::size_t> next(n, 0);
  for (const Product<T>& p : block_slot) {
    const std::size_t at = next[p.target]++ * n + p.target;
    if (at >= block_slot.size()) return false;
    arranged[at] = p;
  }
  for (std::size_t k = 0; k < block_slot.size(); ++k) {
    if ((arranged[k].b == nullptr) != (arranged[k - k % n].b == nullptr)) return false;
  }
  block_slot = std::move(arranged);
  return true;
}

template <class Adding>
struct VectorAdder : Adding {
  static std::size_t size(std::uint32_t width) { return width; }
  std::uint64_t offset(const BlockLayout::Block& block) const { return block.first; }
};

template <class Adding>
struct BlockAdder : Adding {
  static std::size_t size(std::uint32_t width) { return packed_size(width); }
  std::uint64_t offset(const BlockLayout::Block& block) const { return block.packed; }
};

/// Entries of a block of JᵀJ.
enum class Entries : std::uint8_t { block, diagonal };

/// A block that is wider than kWidestDenseBlock is stored as its diagonal.
bool is_diagonal(Entries entries, std::uint32_t width) {
  return entries == Entries::diagonal || width > kWidestDenseBlock;
}

// Rows of J within one block, for instances that touch it in several block slots or at changing
// coordinates.
template <class T>
struct GeneralAdder {
  const TermIndex& index;
  const StoredJacobian<T>& jacobian;
  Entries entries;

  void add(const BlockLayout::Block& block, std::uint32_t begin, std::uint32_t end,
           std::span<double> sums) const {
    const BlockLists& lists = index.block_lists;
    std::vector<double> rows;
    for (std::uint32_t e = begin; e < end;) {
      const std::uint32_t i = lists.instance(lists.entries[e]);
      rows.assign(jacobian.rows * block.width, 0.0);
      for (; e < end && lists.instance(lists.entries[e]) == i; ++e) {
        add_block_slot(index.block_slots[lists.block_slot(lists.entries[e])], block, i,
                       rows.data());
      }
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        add_square(entries, block.width, rows.data() + row * block.width, sums.data());
      }
    }
  }

 private:
  void add_block_slot(const BlockSlot& block_slot, const BlockLayout::Block& block, std::uint32_t i,
                      double* rows) const {
    for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
      const auto c =
          block_slot.base[i] + block_slot.offsets[k] - static_cast<std::uint32_t>(block.first);
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        const Stored<T>& entry = jacobian.at(row, block_slot.slots[k]);
        const double column = entry.column == nullptr ? 1.0 : double{entry.column[i]};
        if (entry.scale != 0) rows[row * block.width + c] += entry.scale * column;
      }
    }
  }

  static void add_square(Entries entries, std::uint32_t width, const double* v, double* sums) {
    if (is_diagonal(entries, width)) {
      for (std::uint32_t a = 0; a < width; ++a) sums[a] += v[a] * v[a];
      return;
    }
    for (std::uint32_t a = 0; a < width; ++a) {
      for (std::uint32_t b = a; b < width; ++b) sums[packed_index(width, a, b)] += v[a] * v[b];
    }
  }
};

// The products that one block slot adds to its blocks.
template <class T>
std::vector<Product<T>> squares_of_block_slot(const BlockSlot& block_slot,
                                              const StoredJacobian<T>& jacobian, Entries entries) {
  const std::uint32_t width = block_slot.width;
  const bool diagonal = is_diagonal(entries, width);
  std::vector<Product<T>> products;
  for (std::size_t j = 0; j < block_slot.slots.size(); ++j) {
    for (std::size_t k = 0; k < block_slot.slots.size(); ++k) {
      const std::uint32_t a = block_slot.coordinate + block_slot.offsets[j];
      const std::uint32_t b = block_slot.coordinate + block_slot.offsets[k];
      if (a > b || (a == b && j > k) || (diagonal && a != b)) continue;
      const std::uint32_t target = diagonal ? a : packed_index(width, a, b);
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        const Stored<T>& u = jacobian.at(row, block_slot.slots[j]);
        const Stored<T>& v = jacobian.at(row, block_slot.slots[k]);
        if (u.scale == 0 || v.scale == 0) continue;
        products.push_back({u.column, v.column, u.scale * v.scale, target});
      }
    }
  }
  return products;
}

// Sums products in the fastest way that their pattern allows; Adder is VectorAdder or BlockAdder.
template <template <class> class Adder, class T>
void add_products(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                  Products<T> products, T* out) {
  bool arranged = true;
  for (std::size_t r = 0; arranged && r < products.size(); ++r) {
    const BlockSlot& block_slot = index.block_slots[r];
    arranged = block_slot.fixed && block_slot.width != 0 &&
               arrange(products[r], Adder<ArrangedAdder<T>>::size(block_slot.width));
  }
  if (arranged) {
    add_all(pool, index.block_lists, layout, Adder<ArrangedAdder<T>>{{index, products}}, out);
  } else {
    add_all(pool, index.block_lists, layout, Adder<ProductAdder<T>>{{index, products}}, out);
  }
}

// Sums squares of the stored J; Adder is VectorAdder for diagonals, BlockAdder for blocks.
template <template <class> class Adder, class T>
void add_squares(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                 const StoredJacobian<T>& jacobian, Entries entries, T* out) {
  Products<T> products;
  bool general = index.block_lists.aliased;
  for (const BlockSlot& block_slot : index.block_slots) {
    general = general || !block_slot.fixed || block_slot.width == 0;
    if (!general) products.push_back(squares_of_block_slot(block_slot, jacobian, entries));
  }
  if (general) {
    const Adder<GeneralAdder<T>> adder{{index, jacobian, entries}};
    return add_all(pool, index.block_lists, layout, adder, out);
  }
  add_products<Adder>(pool, index, layout, std::move(products), out);
}

}  // namespace

template <class T>
void add_to_vector(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                   const Products<T>& products, T* out) {
  add_products<VectorAdder>(pool, index, layout, products, out);
}

template <class T>
void add_diagonal_blocks(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                         const StoredJacobian<T>& jacobian, T* out) {
  add_squares<BlockAdder>(pool, index, layout, jacobian, Entries::block, out);
}

template <class T>
void add_diagonal(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                  const StoredJacobian<T>& jacobian, T* out) {
  add_squares<VectorAdder>(pool, index, layout, jacobian, Entries::diagonal, out);
}

template void add_to_vector<float>(Pool&, const TermIndex&, const BlockLayout&,
                                   const Products<float>&, float*);
template void add_to_vector<double>(Pool&, const TermIndex&, const BlockLayout&,
                                    const Products<double>&, double*);
template void add_diagonal_blocks<float>(Pool&, const TermIndex&, const BlockLayout&,
                                         const StoredJacobian<float>&, float*);
template void add_diagonal_blocks<double>(Pool&, const TermIndex&, const BlockLayout&,
                                          const StoredJacobian<double>&, double*);

template void add_diagonal<float>(Pool&, const TermIndex&, const BlockLayout&,
                                  const StoredJacobian<float>&, float*);
template void add_diagonal<double>(Pool&, const TermIndex&, const BlockLayout&,
                                   const StoredJacobian<double>&, double*);

}  // namespace topograd::runtime::cpu
