// A few adjacent columns of a matrix, to which products of small blocks are added.
#include "panel.hpp"

#include "../../../ir/machine/platform.hpp"

#include <array>

namespace topograd {
namespace {

/// Arguments of a product: rows += Eᵀ W with `count` rows.
struct Product {
  double* rows;
  std::size_t count;
  Strided E;
  const double* W;
  std::uint32_t depth;
};

/// `fixed` is the depth if it is known at compile time, else 0; `width` is the stride of a row.
template <std::uint32_t fixed, std::uint32_t width>
[[gnu::always_inline]] inline void add_rows(const Product& product) {
  const std::uint32_t depth = fixed > 0 ? fixed : product.depth;
  const double* E = product.E.data;
  double* row = product.rows;
  for (std::size_t k = 0; k < product.count; ++k, E += product.E.column, row += width) {
    double sums[width];
    for (std::uint32_t j = 0; j < width; ++j) sums[j] = E[0] * product.W[j];
    for (std::uint32_t i = 1; i < depth; ++i) {
      const double factor = E[i * product.E.row];
      for (std::uint32_t j = 0; j < width; ++j) sums[j] += factor * product.W[i * width + j];
    }
    for (std::uint32_t j = 0; j < width; ++j) row[j] += sums[j];
  }
}

template <std::uint32_t width>
[[gnu::always_inline]] inline void add_any(const Product& product) {
  switch (product.depth) {
    case 1: return add_rows<1, width>(product);
    case 2: return add_rows<2, width>(product);
    case 3: return add_rows<3, width>(product);
    default: return add_rows<0, width>(product);
  }
}

template <std::uint32_t width>
void add_plain(const Product& product) {
  add_any<width>(product);
}

using Add = void (*)(const Product&);
using Adds = std::array<Add, 4>;  // for strides of 4, 8, 12 and 16

constexpr Adds kPlain{add_plain<4>, add_plain<8>, add_plain<12>, add_plain<16>};

#if defined(__x86_64__)
template <std::uint32_t width>
[[gnu::target("avx2")]] void add_avx2(const Product& product) {
  add_any<width>(product);
}

#if defined(__clang__)  // which knows no preferred width of one function
#define TG_AVX512 "avx512f,avx512vl"
#else
#define TG_AVX512 "avx512f,avx512vl,prefer-vector-width=512"
#endif
template <std::uint32_t width>
[[gnu::target(TG_AVX512)]] void add_avx512(const Product& product) {
  add_any<width>(product);
}

#undef TG_AVX512

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

void Panel::add(std::size_t first, std::size_t count, const Strided& E) {
  adds()[stride_ / 4 - 1]({&values_[first * stride_], count, E, right_.data(), depth_});
}

}  // namespace topograd
