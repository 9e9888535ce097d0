// Sums over owners: short lists whole, long ones in segments.
#include "owner_sum.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {
namespace {

// Owners of one range of work.
constexpr std::size_t kOwnersPerRange = 2048;

// Adder::size(block), Adder::place(block) say how many numbers a block's sums are and where they
// go; Adder::add(block, begin, end, sums) adds the entries [begin, end) to the sums.
template <class T, class Adder>
void add_short_lists(Pool& pool, const OwnerLists& lists, const BlockLayout& layout,
                     const Adder& adder, T* out) {
  pool.for_ranges(lists.owners.size(), kOwnersPerRange, [&](std::size_t first, std::size_t last) {
    std::vector<double> sums;
    for (std::size_t k = first; k < last; ++k) {
      const std::uint32_t begin = lists.starts[k], end = lists.starts[k + 1];
      if (end - begin > kLongList) continue;
      const BlockLayout::Block block = layout.block(lists.owners[k]);
      sums.assign(adder.size(block), 0.0);
      adder.add(block, begin, end, sums.data());
      T* const target = out + adder.place(block);
      for (std::size_t j = 0; j < sums.size(); ++j) target[j] += static_cast<T>(sums[j]);
    }
  });
}

template <class T, class Adder>
void add_long_lists(Pool& pool, const OwnerLists& lists, const BlockLayout& layout,
                    const Adder& adder, T* out) {
  const std::vector<ListSegment>& segments = lists.segments;
  std::vector<std::vector<double>> partial(segments.size());
  pool.for_ranges(segments.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t s = first; s < last; ++s) {
      const BlockLayout::Block block = layout.block(lists.owners[segments[s].owner]);
      partial[s].assign(adder.size(block), 0.0);
      adder.add(block, segments[s].begin, segments[s].end, partial[s].data());
    }
  });
  for (std::size_t s = 0; s < segments.size();) {
    const std::uint32_t owner = segments[s].owner;
    std::vector<double> sums(partial[s].size());
    for (; s < segments.size() && segments[s].owner == owner; ++s) {
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += partial[s][j];
    }
    T* const target = out + adder.place(layout.block(lists.owners[owner]));
    for (std::size_t j = 0; j < sums.size(); ++j) target[j] += static_cast<T>(sums[j]);
  }
}

template <class T, class Adder>
void add_all(Pool& pool, const OwnerLists& lists, const BlockLayout& layout, const Adder& adder,
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
           double* sums) const {
    const OwnerLists& lists = index.owners;
    for (std::uint32_t e = begin; e < end; ++e) {
      const std::uint32_t i = lists.instance(lists.entries[e]), r = lists.role(lists.entries[e]);
      const Role& role = index.roles[r];
      double* const target =
          role.fixed ? sums : sums + (role.base[i] - static_cast<std::uint32_t>(block.first));
      for (const Product<T>& p : products[r]) target[p.target] += value(p, i);
    }
  }
};

// Products of roles that all fill the same N sums: product k of a role goes to sum k % N. The sums
// stay in registers.
template <std::uint32_t N, class T>
struct ArrangedAdder {
  const TermIndex& index;
  const Products<T>& products;

  void add(const BlockLayout::Block&, std::uint32_t begin, std::uint32_t end, double* sums) const {
    const OwnerLists& lists = index.owners;
    double local[N] = {};
    for (std::uint32_t e = begin; e < end; ++e) {
      const std::uint32_t i = lists.instance(lists.entries[e]);
      const std::vector<Product<T>>& role = products[lists.role(lists.entries[e])];
      const Product<T>* const last = role.data() + role.size();
      for (const Product<T>* p = role.data(); p != last; p += N) {
        if (p->b != nullptr) {
          for (std::uint32_t k = 0; k < N; ++k) {
            const double b = p[k].b[i];
            local[k] += b == 0 ? 0.0 : p[k].scale * p[k].a[i] * b;
          }
        } else {
          for (std::uint32_t k = 0; k < N; ++k) local[k] += p[k].scale * p[k].a[i];
        }
      }
    }
    for (std::uint32_t k = 0; k < N; ++k) sums[k] += local[k];
  }
};

// Puts the products of every role into the order that ArrangedAdder wants, if they have one.
template <class T>
bool arrange(const TermIndex& index, Products<T>& products, std::uint32_t n) {
  for (std::size_t r = 0; r < products.size(); ++r) {
    std::vector<Product<T>>& role = products[r];
    if (!index.roles[r].fixed || role.size() % n != 0) return false;
    for (Product<T>& p : role) {
      if (p.a == nullptr) std::swap(p.a, p.b);
      if (p.a == nullptr) return false;
    }
    std::vector<Product<T>> arranged(role.size());
    std::vector<std::size_t> next(n, 0);
    for (const Product<T>& p : role) {
      const std::size_t at = next[p.target]++ * n + p.target;
      if (at >= role.size()) return false;
      arranged[at] = p;
    }
    for (std::size_t k = 0; k < role.size(); ++k) {
      if ((arranged[k].b == nullptr) != (arranged[k - k % n].b == nullptr)) return false;
    }
    role = std::move(arranged);
  }
  return true;
}

template <class Adding>
struct VectorAdder : Adding {
  std::size_t size(const BlockLayout::Block& block) const { return block.width; }
  std::uint64_t place(const BlockLayout::Block& block) const { return block.first; }
};

template <class Adding>
struct BlockAdder : Adding {
  std::size_t size(const BlockLayout::Block& block) const { return packed_size(block.width); }
  std::uint64_t place(const BlockLayout::Block& block) const { return block.packed; }
};

// Rows of J within one block, for instances that touch it in several roles or at changing
// coordinates.
template <class T>
struct GeneralAdder {
  const TermIndex& index;
  const StoredJacobian<T>& jacobian;

  void add(const BlockLayout::Block& block, std::uint32_t begin, std::uint32_t end,
           double* sums) const {
    const OwnerLists& lists = index.owners;
    std::vector<double> rows;
    for (std::uint32_t e = begin; e < end;) {
      const std::uint32_t i = lists.instance(lists.entries[e]);
      rows.assign(jacobian.rows * block.width, 0.0);
      for (; e < end && lists.instance(lists.entries[e]) == i; ++e) {
        add_role(index.roles[lists.role(lists.entries[e])], block, i, rows.data());
      }
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        add_square(block.width, rows.data() + row * block.width, sums);
      }
    }
  }

 private:
  void add_role(const Role& role, const BlockLayout::Block& block, std::uint32_t i,
                double* rows) const {
    for (std::size_t k = 0; k < role.slots.size(); ++k) {
      const auto c = role.base[i] + role.offsets[k] - static_cast<std::uint32_t>(block.first);
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        const Stored<T>& entry = jacobian.at(row, role.slots[k]);
        const double column = entry.column == nullptr ? 1.0 : double{entry.column[i]};
        if (entry.scale != 0) rows[row * block.width + c] += entry.scale * column;
      }
    }
  }

  static void add_square(std::uint32_t width, const double* v, double* sums) {
    if (width > kWidestDenseBlock) {
      for (std::uint32_t a = 0; a < width; ++a) sums[a] += v[a] * v[a];
      return;
    }
    for (std::uint32_t a = 0; a < width; ++a) {
      for (std::uint32_t b = a; b < width; ++b) sums[packed_index(width, a, b)] += v[a] * v[b];
    }
  }
};

// The products that one role adds to its blocks.
template <class T>
std::vector<Product<T>> squares_of_role(const Role& role, const StoredJacobian<T>& jacobian) {
  const std::uint32_t width = role.width;
  std::vector<Product<T>> products;
  for (std::size_t j = 0; j < role.slots.size(); ++j) {
    for (std::size_t k = 0; k < role.slots.size(); ++k) {
      const std::uint32_t a = role.coordinate + role.offsets[j];
      const std::uint32_t b = role.coordinate + role.offsets[k];
      if (a > b || (a == b && j > k) || (width > kWidestDenseBlock && a != b)) continue;
      const std::uint32_t target = width > kWidestDenseBlock ? a : packed_index(width, a, b);
      for (std::size_t row = 0; row < jacobian.rows; ++row) {
        const Stored<T>& u = jacobian.at(row, role.slots[j]);
        const Stored<T>& v = jacobian.at(row, role.slots[k]);
        if (u.scale == 0 || v.scale == 0) continue;
        products.push_back({u.column, v.column, u.scale * v.scale, target});
      }
    }
  }
  return products;
}

// Sums of products in the fastest way that their pattern allows; Adder is VectorAdder or
// BlockAdder.
template <template <class> class Adder, class T>
void add_products(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                  Products<T> products, std::uint32_t n, T* out) {
  const auto run = [&](auto adding) {
    add_all(pool, index.owners, layout, Adder<decltype(adding)>{adding}, out);
  };
  if (n != 0 && arrange(index, products, n)) {
    switch (n) {
      case 1: return run(ArrangedAdder<1, T>{index, products});
      case 2: return run(ArrangedAdder<2, T>{index, products});
      case 3: return run(ArrangedAdder<3, T>{index, products});
      case 4: return run(ArrangedAdder<4, T>{index, products});
      case 6: return run(ArrangedAdder<6, T>{index, products});
      case 10: return run(ArrangedAdder<10, T>{index, products});
      case 21: return run(ArrangedAdder<21, T>{index, products});
      default: break;
    }
  }
  run(ProductAdder<T>{index, products});
}

// The one width of all blocks of the term, or 0.
std::uint32_t common_width(const TermIndex& index) {
  std::uint32_t width = index.roles.empty() ? 0 : index.roles[0].width;
  for (const Role& role : index.roles) width = role.width == width ? width : 0;
  return width;
}

}  // namespace

template <class T>
void add_to_vector(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                   const Products<T>& products, T* out) {
  add_products<VectorAdder>(pool, index, layout, products, common_width(index), out);
}

template <class T>
void add_diagonal_blocks(Pool& pool, const TermIndex& index, const BlockLayout& layout,
                         const StoredJacobian<T>& jacobian, T* out) {
  Products<T> products;
  bool general = index.owners.aliased;
  for (const Role& role : index.roles) {
    general = general || !role.fixed || role.width == 0;
    if (!general) products.push_back(squares_of_role(role, jacobian));
  }
  if (general) {
    const BlockAdder<GeneralAdder<T>> adder{{index, jacobian}};
    return add_all(pool, index.owners, layout, adder, out);
  }
  const auto sums = static_cast<std::uint32_t>(packed_size(common_width(index)));
  add_products<BlockAdder>(pool, index, layout, std::move(products), sums, out);
}

template void add_to_vector<float>(Pool&, const TermIndex&, const BlockLayout&,
                                   const Products<float>&, float*);
template void add_to_vector<double>(Pool&, const TermIndex&, const BlockLayout&,
                                    const Products<double>&, double*);
template void add_diagonal_blocks<float>(Pool&, const TermIndex&, const BlockLayout&,
                                         const StoredJacobian<float>&, float*);
template void add_diagonal_blocks<double>(Pool&, const TermIndex&, const BlockLayout&,
                                          const StoredJacobian<double>&, double*);

}  // namespace topograd::runtime::cpu
