// Bodies of a front's kernels, compiled once per instruction set by the including file.
//
// Everything here has internal linkage and no template of the standard library is instantiated:
// otherwise the linker might keep code for a newer instruction set and use it everywhere.
#pragma once

#include "../../factor/tile.hpp"
#include "front_kernels.hpp"

#include <cmath>
#include <cstdint>

namespace topograd::runtime::cpu {
namespace {

using Index = std::uint32_t;
using Size = std::uint64_t;

#if defined(__AVX512F__)
constexpr Index kWidth = 8, kGroup = 8;  // numbers of a register; columns computed at one time
#elif defined(__AVX2__)
constexpr Index kWidth = 4, kGroup = 4;
#else
constexpr Index kWidth = 2, kGroup = 2;
#endif
// Columns eliminated at one time: they decide where in its sum an entry of the matrix is added.
#ifdef TG_PORTABLE_BITS
constexpr Index kPivots = 4;
#else
constexpr Index kPivots = kGroup;
#endif
constexpr Index kRegisters = kTile / kWidth;

typedef double Register
    __attribute__((vector_size(kWidth * sizeof(double)), aligned(sizeof(double)), may_alias));

/// Eight rows of one column.
struct Column {
  Register part[kRegisters];
};

[[gnu::always_inline]] inline Column load(const double* from) {
  Column out;
#pragma GCC unroll 8
  for (Index i = 0; i < kRegisters; ++i)
    out.part[i] = *reinterpret_cast<const Register*>(from + i * kWidth);
  return out;
}
[[gnu::always_inline]] inline void store(double* to, const Column& from) {
#pragma GCC unroll 8
  for (Index i = 0; i < kRegisters; ++i)
    *reinterpret_cast<Register*>(to + i * kWidth) = from.part[i];
}
/// to −= a b
[[gnu::always_inline]] inline void subtract(Column& to, const Column& a, double b) {
#pragma GCC unroll 8
  for (Index i = 0; i < kRegisters; ++i) to.part[i] -= a.part[i] * b;
}
[[gnu::always_inline]] inline void scale(Column& to, double b) {
#pragma GCC unroll 8
  for (Index i = 0; i < kRegisters; ++i) to.part[i] *= b;
}
[[gnu::always_inline]] inline void add(Column& to, const Column& a) {
#pragma GCC unroll 8
  for (Index i = 0; i < kRegisters; ++i) to.part[i] += a.part[i];
}

/// −Σ over p < depth of signs[p] a[:, p] b[0 .. N, p]ᵀ; both have tiles of kTile rows.
template <Index N, bool Signed>
struct Products {
  Column column[N];

  [[gnu::always_inline]] Products(const double* a, const double* b, Index depth,
                                  const double* signs) {
#pragma GCC unroll 8
    for (Index j = 0; j < N; ++j) column[j] = Column{};
    for (Index p = 0; p < depth; ++p, a += kTile, b += kTile) {
      Column left = load(a);
      if constexpr (Signed) scale(left, signs[p]);
#pragma GCC unroll 8
      for (Index j = 0; j < N; ++j) subtract(column[j], left, b[j]);
    }
  }
};

Size tile_at(Index tile, Index k) { return Size{tile} * kTile * k; }
Size triangle_at(Index tile) { return Size{kTile} * kTile * (Size{tile} * (tile + 1) / 2); }
Index least(Index a, Index b) { return a < b ? a : b; }
double size_of(double number) { return number < 0 ? -number : number; }
/// signs[p] number
template <bool Signed>
double with_sign(double number, const double* signs, Index p) {
  if constexpr (Signed)
    return number * signs[p];
  else
    return number;
}

/// Computes columns [c, c + N) of L S in tiles of rows, with all columns before c complete.
template <Index N, bool Signed>
void eliminate_columns(const double* panel, double* tiles, Index count, Index k, Index c,
                       const double* signs) {
  const double* rows = panel + tile_at(c / kTile, k) + c % kTile;  // of the pivots c ...
  const double* diagonal = rows + Size{c} * kTile;
  for (Index t = 0; t < count; ++t) {
    double* tile = tiles + tile_at(t, k);
    Products<N, Signed> x(tile, rows, c, signs);
#pragma GCC unroll 8
    for (Index j = 0; j < N; ++j) {
      add(x.column[j], load(tile + (c + j) * kTile));
#pragma GCC unroll 8
      for (Index q = 0; q < j; ++q)
        subtract(x.column[j], x.column[q],
                 with_sign<Signed>(diagonal[q * kTile + j], signs, c + q));
      const double reciprocal = diagonal[j * kTile + j];
      scale(x.column[j], Signed ? size_of(reciprocal) : reciprocal);
      store(tile + (c + j) * kTile, x.column[j]);
    }
  }
}

template <bool Signed>
void eliminate_range(const double* panel, double* tiles, Index count, Index k, Index begin,
                     Index end, const double* signs) {
  const Index last = least(end * kTile, k);
  for (Index c = begin * kTile; c < last; c += kPivots) {
    switch (least(kPivots, last - c)) {
      case 1: eliminate_columns<1, Signed>(panel, tiles, count, k, c, signs); break;
      case 2: eliminate_columns<2, Signed>(panel, tiles, count, k, c, signs); break;
#if defined(__AVX2__) || defined(TG_PORTABLE_BITS)
      case 3: eliminate_columns<3, Signed>(panel, tiles, count, k, c, signs); break;
      case 4: eliminate_columns<4, Signed>(panel, tiles, count, k, c, signs); break;
#endif
#if defined(__AVX512F__) && !defined(TG_PORTABLE_BITS)
      case 5: eliminate_columns<5, Signed>(panel, tiles, count, k, c, signs); break;
      case 6: eliminate_columns<6, Signed>(panel, tiles, count, k, c, signs); break;
      case 7: eliminate_columns<7, Signed>(panel, tiles, count, k, c, signs); break;
      case 8: eliminate_columns<8, Signed>(panel, tiles, count, k, c, signs); break;
#endif
    }
  }
}

void eliminate(const double* panel, double* tiles, Index count, Index k, Index begin, Index end,
               const double* signs) {
  if (signs == nullptr)
    eliminate_range<false>(panel, tiles, count, k, begin, end, signs);
  else
    eliminate_range<true>(panel, tiles, count, k, begin, end, signs);
}

/// Columns [c, c + width) of a tile of rows, less the products of those before c.
template <bool Signed>
void load_columns(const double* tile, Index c, Index width, const double* signs, Column* columns) {
  const double* diagonal = tile + Size{c} * kTile;
  for (Index j = 0; j < width; j += kGroup) {
    const Products<kGroup, Signed> sums(tile, tile + j, c, signs);
    for (Index q = 0; q < least(kGroup, width - j); ++q) {
      columns[j + q] = load(diagonal + (j + q) * kTile);
      add(columns[j + q], sums.column[q]);
    }
  }
}

/// Factorises the tile on the diagonal, with all columns before it complete.
template <bool Signed>
FrontKernels::Pivot factor_diagonal(double* tile, Index k, Index t, const double* limits,
                                    double* signs) {
  const Index c = t * kTile, width = least(kTile, k - c);
  double* diagonal = tile + Size{c} * kTile;
  Column columns[kTile];
  load_columns<Signed>(tile, c, width, signs, columns);
  FrontKernels::Pivot out{k, 0, 0, 0};
  for (Index j = 0; j < width; ++j) {
    double* column = diagonal + j * kTile;
    for (Index q = 0; q < j; ++q)
      subtract(columns[j], columns[q], with_sign<Signed>(diagonal[q * kTile + j], signs, c + q));
    store(column, columns[j]);
    const double pivot = column[j], size = Signed ? size_of(pivot) : pivot;
    const bool vanishes = limits != nullptr && pivot <= limits[c + j] && pivot >= -limits[c + j];
    if (!vanishes && !(size > 0 && size <= __DBL_MAX__)) {
      out.column = c + j;
      out.value = pivot;
      return out;
    }
    const bool negative = Signed && !vanishes && pivot < 0;
    const double reciprocal = vanishes ? 0 : 1 / std::sqrt(size);
    out.vanished += vanishes ? 1 : 0;
    out.negative += negative ? 1 : 0;
    scale(columns[j], reciprocal);
    store(column, columns[j]);
    column[j] = negative ? -reciprocal : reciprocal;
    if constexpr (Signed) signs[c + j] = negative ? -1 : 1;
  }
  return out;
}

template <bool Signed>
FrontKernels::Pivot factor_range(double* panel, Index k, Index begin, Index end,
                                 const double* limits, double* signs) {
  FrontKernels::Pivot out{k, 0, 0, 0};
  for (Index t = begin; t < end; ++t) {
    double* tile = panel + tile_at(t, k);
    eliminate_range<Signed>(panel, tile, 1, k, begin, t, signs);
    const FrontKernels::Pivot pivot = factor_diagonal<Signed>(tile, k, t, limits, signs);
    if (pivot.column < k) return pivot;
    out.vanished += pivot.vanished;
    out.negative += pivot.negative;
  }
  return out;
}

FrontKernels::Pivot factor(double* panel, Index k, Index begin, Index end, const double* limits,
                           double* signs) {
  return signs == nullptr ? factor_range<false>(panel, k, begin, end, limits, signs)
                          : factor_range<true>(panel, k, begin, end, limits, signs);
}

template <bool Signed>
void update_range(const double* below, double* update, Index k, Index begin, Index end, Index left,
                  Index right, const double* signs) {
  for (Index c = left * kTile; c < right * kTile; c += kGroup) {
    const double* columns = below + tile_at(c / kTile, k) + c % kTile;
    for (Index t = c / kTile > begin ? c / kTile : begin; t < end; ++t) {
      const Products<kGroup, Signed> sums(below + tile_at(t, k), columns, k, signs);
      double* to = update + triangle_at(t) + Size{c} * kTile;
#pragma GCC unroll 8
      for (Index j = 0; j < kGroup; ++j) store(to + j * kTile, sums.column[j]);
    }
  }
}

void update(const double* below, double* update, Index k, Index begin, Index end, Index left,
            Index right, const double* signs) {
  if (signs == nullptr)
    update_range<false>(below, update, k, begin, end, left, right, signs);
  else
    update_range<true>(below, update, k, begin, end, left, right, signs);
}

/// Adds columns [left, right) of a child's tile of rows; rows above the diagonal are left out.
///
///   to      where the rows have their column 0
///   origin  position of the column that is there
[[gnu::always_inline]] inline void add_columns(const double* tile, const Index* parent_rows,
                                               Index first, Index rows, double* const* to,
                                               Index left, Index right, Index origin) {
  const Index whole = least(right, first);  // columns before the diagonal
  Index j = left;
  if (rows == kTile) {
    for (; j < whole; ++j) {
      const Size at = Size{kTile} * (parent_rows[j] - origin);
      const double* from = tile + Size{j} * kTile;
#pragma GCC unroll 8
      for (Index r = 0; r < kTile; ++r) to[r][at] += from[r];
    }
  }
  for (; j < right; ++j) {
    const Size at = Size{kTile} * (parent_rows[j] - origin);
    const double* from = tile + Size{j} * kTile;
    for (Index r = j > first ? j - first : 0; r < rows; ++r) to[r][at] += from[r];
  }
}

Index number_below(const Index* parent_rows, Index count, Index bound) {
  Index k = 0;
  while (k < count && parent_rows[k] < bound) ++k;
  return k;
}

Index pivot_rows(Index k) { return (k + kTile - 1) / kTile * kTile; }

void add_to_panel(const double* child, const Index* parent_rows, Index count, double* panel,
                  Index k) {
  const Index columns = number_below(parent_rows, count, pivot_rows(k));
  if (columns == 0) return;
  for (Index first = 0; first < count; first += kTile) {
    const Index rows = least(kTile, count - first);
    double* to[kTile];
    for (Index r = 0; r < rows; ++r) {
      const Index row = parent_rows[first + r];
      to[r] = panel + tile_at(row / kTile, k) + row % kTile;
    }
    add_columns(child + triangle_at(first / kTile), parent_rows, first, rows, to, 0,
                least(columns, first + rows), 0);
  }
}

void add_to_update(const double* child, const Index* parent_rows, Index count, double* update,
                   Index k, Index begin, Index end) {
  const Index origin = pivot_rows(k);
  const Index columns = number_below(parent_rows, count, origin);
  for (Index first = begin * kTile; first < least(count, end * kTile); first += kTile) {
    const Index rows = least(kTile, count - first);
    if (parent_rows[first + rows - 1] < origin) continue;
    double* to[kTile];
    for (Index r = 0; r < rows; ++r) {
      const Index row = parent_rows[first + r] < origin ? 0 : parent_rows[first + r] - origin;
      to[r] = update + triangle_at(row / kTile) + row % kTile;
    }
    add_columns(child + triangle_at(first / kTile), parent_rows, first, rows, to, columns,
                first + rows, origin);
  }
}

void forward(const double* panel, Index k, Index tiles, double* y) {
  constexpr Index kSums = 4;  // independent ones, since an addition takes several cycles
  for (Index t = 0; t < tiles; ++t) {
    const double* tile = panel + tile_at(t, k);
    const Index c = t * kTile, columns = least(c, k);
    Column sums[kSums] = {load(y + c)};
    Index p = 0;
    for (; p + kSums <= columns; p += kSums) {
#pragma GCC unroll 8
      for (Index i = 0; i < kSums; ++i) subtract(sums[i], load(tile + (p + i) * kTile), y[p + i]);
    }
    for (; p < columns; ++p) subtract(sums[0], load(tile + p * kTile), y[p]);
    for (Index i = 1; i < kSums; ++i) add(sums[0], sums[i]);
    store(y + c, sums[0]);
    for (Index j = c; j < least(c + kTile, k); ++j) {
      const double* column = tile + Size{j} * kTile;
      y[j] *= column[j - c];
      for (Index r = j - c + 1; r < kTile; ++r) y[c + r] -= column[r] * y[j];
    }
  }
}

double sum_of(const Column& column) {
  double parts[kTile];
  store(parts, column);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

/// y −= Lᵀ y in pivots [c, c + N), with the tiles of rows from `begin` on.
template <Index N>
void subtract_rows(const double* panel, Index k, Index c, Index begin, Index tiles, double* y) {
  Column sums[N] = {};
  for (Index t = begin; t < tiles; ++t) {
    const double* tile = panel + tile_at(t, k) + Size{c} * kTile;
    const Column x = load(y + t * kTile);
#pragma GCC unroll 8
    for (Index j = 0; j < N; ++j) {
      const Column l = load(tile + j * kTile);
#pragma GCC unroll 8
      for (Index i = 0; i < kRegisters; ++i) sums[j].part[i] += l.part[i] * x.part[i];
    }
  }
  for (Index j = 0; j < N; ++j) y[c + j] -= sum_of(sums[j]);
}

void backward(const double* panel, Index k, Index tiles, double* y) {
  for (Index t = pivot_rows(k) / kTile; t-- > 0;) {
    const Index begin = t * kTile, end = least(begin + kTile, k);
    Index c = begin;
    for (; c + kGroup <= end; c += kGroup) subtract_rows<kGroup>(panel, k, c, t + 1, tiles, y);
    for (; c < end; ++c) subtract_rows<1>(panel, k, c, t + 1, tiles, y);
    for (Index j = end; j-- > begin;) {
      const double* column = panel + tile_at(t, k) + Size{j} * kTile;
      for (Index r = j + 1; r < end; ++r) y[j] -= column[r - begin] * y[r];
      y[j] *= column[j - begin];
    }
  }
}

constexpr FrontKernels kKernels = {.factor = factor,
                                   .eliminate = eliminate,
                                   .update = update,
                                   .add_to_panel = add_to_panel,
                                   .add_to_update = add_to_update,
                                   .forward = forward,
                                   .backward = backward};

}  // namespace
}  // namespace topograd::runtime::cpu
