// A few adjacent columns of a matrix, to which products of small blocks are added.
#include "panel.hpp"

#include "../../../ir/machine/platform.hpp"

#include <array>

namespace topograd {
namespace {

/// Arguments of a product: rows += Eᵀ W, by runs, or by rows without them.
struct Product {
  double* values;
  std::span<const Panel::Run> runs;
  std::span<const std::uint32_t> rows;
  Strided E;
  const double* W;
  std::uint32_t depth;
};

// With loops over single numbers compilers turn these products inside out.
template <std::uint32_t lanes>
struct VectorOf;
#define TG_VECTOR(lanes)                                                             \
  template <>                                                                        \
  struct VectorOf<lanes> {                                                           \
    typedef double Type                                                              \
        __attribute__((vector_size((lanes)*8), aligned(sizeof(double)), may_alias)); \
  };
TG_VECTOR(2)
TG_VECTOR(4)
TG_VECTOR(8)
#undef TG_VECTOR

/// A row of `width` numbers in registers of `lanes`, and of 4 for what is left.
template <std::uint32_t width, std::uint32_t lanes>
class Row {
 public:
  [[gnu::always_inline]] Row() = default;
  [[gnu::always_inline]] explicit Row(const double* from) {
#pragma GCC unroll 8
    for (std::uint32_t k = 0; k < kWide; ++k)
      wide_[k] = *reinterpret_cast<const Wide*>(from + k * lanes);
    if constexpr (kNarrow) narrow_ = *reinterpret_cast<const Narrow*>(from + kWide * lanes);
  }
  [[gnu::always_inline]] void store(double* to) const {
#pragma GCC unroll 8
    for (std::uint32_t k = 0; k < kWide; ++k) *reinterpret_cast<Wide*>(to + k * lanes) = wide_[k];
    if constexpr (kNarrow) *reinterpret_cast<Narrow*>(to + kWide * lanes) = narrow_;
  }
  [[gnu::always_inline]] void scale(double factor) {
#pragma GCC unroll 8
    for (std::uint32_t k = 0; k < kWide; ++k) wide_[k] *= factor;
    if constexpr (kNarrow) narrow_ *= factor;
  }
  [[gnu::always_inline]] void add(const Row& other) {
#pragma GCC unroll 8
    for (std::uint32_t k = 0; k < kWide; ++k) wide_[k] += other.wide_[k];
    if constexpr (kNarrow) narrow_ += other.narrow_;
  }

 private:
  using Wide = typename VectorOf<lanes>::Type;
  using Narrow = typename VectorOf<4>::Type;
  static constexpr std::uint32_t kWide = width / lanes;
  static constexpr bool kNarrow = width % lanes > 0;
  static_assert(width % lanes == 0 || width % lanes == 4);

  Wide wide_[kWide];
  Narrow narrow_;
};

/// row += Σ E[i] W[i]. `fixed` is the depth if it is known at compile time, else 0; then `kept` has
/// the rows of W.
template <std::uint32_t fixed, std::uint32_t width, std::uint32_t lanes>
[[gnu::always_inline]] inline void add_row(const Product& product, const Row<width, lanes>* kept,
                                           const double* E, double* row) {
  using Sums = Row<width, lanes>;
  const std::uint32_t depth = fixed > 0 ? fixed : product.depth;
  Sums sums = fixed > 0 ? kept[0] : Sums(product.W);
  sums.scale(E[0]);
#pragma GCC unroll 4
  for (std::uint32_t i = 1; i < depth; ++i) {
    Sums term = fixed > 0 ? kept[i] : Sums(product.W + i * width);
    term.scale(E[i * product.E.row]);
    sums.add(term);
  }
  sums.add(Sums(row));
  sums.store(row);
}

/// The argument is a copy that no row can change.
template <std::uint32_t fixed, std::uint32_t width, std::uint32_t lanes>
[[gnu::always_inline]] inline void add_rows(const Product product) {
  using Sums = Row<width, lanes>;
  Sums kept[fixed > 0 ? fixed : 1];
  for (std::uint32_t i = 0; i < fixed; ++i) kept[i] = Sums(product.W + i * width);
  for (const Panel::Run& run : product.runs) {
    const double* E = product.E.data + run.at * product.E.column;
    double* row = product.values + std::size_t{run.row} * width;
    for (std::uint32_t k = run.count; k > 0; --k, E += product.E.column, row += width)
      add_row<fixed, width, lanes>(product, kept, E, row);
  }
  const double* E = product.E.data;
  for (const std::uint32_t row : product.rows) {
    add_row<fixed, width, lanes>(product, kept, E, product.values + std::size_t{row} * width);
    E += product.E.column;
  }
}

template <std::uint32_t width, std::uint32_t lanes>
[[gnu::always_inline]] inline void add_any(const Product& product) {
  switch (product.depth) {
    case 1: return add_rows<1, width, lanes>(product);
    case 2: return add_rows<2, width, lanes>(product);
    case 3: return add_rows<3, width, lanes>(product);
    default: return add_rows<0, width, lanes>(product);
  }
}

template <std::uint32_t width>
void add_plain(const Product& product) {
  add_any<width, 2>(product);
}

using Add = void (*)(const Product&);
using Adds = std::array<Add, 4>;  // for strides of 4, 8, 12 and 16

constexpr Adds kPlain{add_plain<4>, add_plain<8>, add_plain<12>, add_plain<16>};

#if defined(__x86_64__)
template <std::uint32_t width>
[[gnu::target("avx2")]] void add_avx2(const Product& product) {
  add_any<width, 4>(product);
}

template <std::uint32_t width>
[[gnu::target("avx512f,avx512vl")]] void add_avx512(const Product& product) {
  add_any<width, 8>(product);
}

constexpr Adds kAvx2{add_avx2<4>, add_avx2<8>, add_avx2<12>, add_avx2<16>};
constexpr Adds kAvx512{add_avx2<4>, add_avx512<8>, add_avx512<12>, add_avx512<16>};

const Adds& adds() {
  static const Adds& best = platform::has_avx512() ? kAvx512
                            : platform::has_avx2() ? kAvx2
                                                   : kPlain;
  return best;
}
#else
const Adds& adds() { return kPlain; }
#endif

}  // namespace

void Panel::open(std::size_t rows, std::uint32_t columns) {
  if (columns_ != columns) right_.clear();  // so that columns up to the stride are 0
  columns_ = columns;
  stride_ = (columns + 3) / 4 * 4;
  if (values_.size() < rows * stride_) values_.resize(rows * stride_);
}

/// W is stored by columns.
template <std::uint32_t depth>
void Panel::set_columns(const double* W, double sign) {
  for (std::uint32_t j = 0; j < columns_; ++j)
    for (std::uint32_t i = 0; i < depth; ++i) right_[i * stride_ + j] = sign * W[j * depth + i];
}

void Panel::set_right(const Strided& W, std::uint32_t depth, double sign) {
  depth_ = depth;
  if (right_.size() != std::size_t{depth} * stride_)
    right_.assign(std::size_t{depth} * stride_, 0.0);
  double* out = right_.data();
  if (W.column == 1) {
    for (std::uint32_t i = 0; i < depth; ++i, out += stride_) {
      const double* const row = W.data + i * W.row;
      for (std::uint32_t j = 0; j < columns_; ++j) out[j] = sign * row[j];
    }
    return;
  }
  if (depth == 3 && W.row == 1 && W.column == 3) return set_columns<3>(W.data, sign);
  for (std::uint32_t i = 0; i < depth; ++i, out += stride_) {
    const double* const row = W.data + i * W.row;
    for (std::uint32_t j = 0; j < columns_; ++j) out[j] = sign * row[j * W.column];
  }
}

void Panel::add(std::span<const Run> runs, const Strided& E) {
  adds()[stride_ / 4 - 1]({values_.data(), runs, {}, E, right_.data(), depth_});
}

void Panel::add(std::span<const std::uint32_t> rows, const Strided& E) {
  adds()[stride_ / 4 - 1]({values_.data(), {}, rows, E, right_.data(), depth_});
}

}  // namespace topograd
