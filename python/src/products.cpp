// Sums of products for several groups side by side, which compilers write with vectors.
#include "products.hpp"

#include "../../autodiff/node_sweep.hpp"
#include "../../ir/machine/platform.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace topograd::python {
namespace {

#if defined(__x86_64__) && defined(__GNUC__)
#define TG_WITH(sets) __attribute__((target(sets)))
#define TG_INLINE inline __attribute__((always_inline))
#else
#define TG_WITH(sets)
#define TG_INLINE inline
#endif

/// Groups side by side, and terms whose tree is added up at once: a power of two.
constexpr std::size_t kLanes = 8, kTerms = 64;
using Lanes = std::array<double, kLanes>;
using Tile = std::array<Lanes, kTerms>;

/// The numbers of some groups, and of terms from one on: a row of lanes for each term, or one
/// number.
class Rows {
 public:
  TG_INLINE Rows(const Factor& factor, std::size_t group, std::size_t lanes, std::size_t term,
                 std::size_t terms, Tile& spare)
      : first_(factor.first + factor.offset + at(group) * factor.group + at(term) * factor.term),
        step_(factor.term),
        is_one_(factor.group == 0) {
    if (is_one_ || (factor.group == 1 && lanes == kLanes)) return;
    for (std::size_t j = 0; j < terms; ++j)
      for (std::size_t k = 0; k < kLanes; ++k)
        spare[j][k] = first_[at(j) * step_ + at(std::min(k, lanes - 1)) * factor.group];
    first_ = spare[0].data();
    step_ = kLanes;
  }
  TG_INLINE bool is_one() const { return is_one_; }
  TG_INLINE const double* row(std::size_t j) const { return first_ + at(j) * step_; }

 private:
  static std::int64_t at(std::size_t k) { return static_cast<std::int64_t>(k); }

  const double* first_;
  std::int64_t step_;
  bool is_one_;
};

template <bool IsFirst, class F>
TG_INLINE void put_products(const Rows& a, const Rows& b, std::size_t terms, const F& product,
                            Tile& out) {
  for (std::size_t j = 0; j < terms; ++j) {
    const double *const x = a.row(j), *const y = b.row(j);
    Lanes& to = out[j];
    if (b.is_one()) {
      const double one = *y;
      for (std::size_t k = 0; k < kLanes; ++k)
        to[k] = IsFirst ? product(x[k], one) : to[k] + product(x[k], one);
    } else {
      for (std::size_t k = 0; k < kLanes; ++k)
        to[k] = IsFirst ? product(x[k], y[k]) : to[k] + product(x[k], y[k]);
    }
  }
}

/// Adds rows in pairs until one is left.
TG_INLINE void add_pairs(Tile& rows, std::size_t count) {
  for (; count > 1; count = (count + 1) / 2) {
    for (std::size_t j = 0; j < count / 2; ++j)
      for (std::size_t k = 0; k < kLanes; ++k) rows[j][k] = rows[2 * j][k] + rows[2 * j + 1][k];
    if (count % 2 == 1) rows[count / 2] = rows[count - 1];
  }
}

/// True if all terms of some groups are beyond what is used of a factor.
bool is_unused(const Factor& factor, std::size_t group, std::size_t lanes, std::size_t term,
               std::size_t terms) {
  const auto corner = [&](std::size_t g, std::size_t j) {
    return factor.offset + static_cast<std::int64_t>(g) * factor.group +
           static_cast<std::int64_t>(j) * factor.term;
  };
  const auto [least, most] =
      std::minmax({corner(group, term), corner(group + lanes - 1, term),
                   corner(group, term + terms - 1), corner(group + lanes - 1, term + terms - 1)});
  return most < factor.first_used || least > factor.last_used;
}

/// Some groups and terms of a sum.
struct Part {
  std::size_t group, lanes, term, terms;

  bool is_unused(const Factor& factor) const {
    return python::is_unused(factor, group, lanes, term, terms);
  }
};

/// The sum over the terms of a part, in lanes; false if all of its products are left out.
template <class F>
TG_INLINE bool sum_part(std::span<const Product> products, const Part& part, const F& product,
                        Tile& tile) {
  Tile of_a, of_b;
  bool is_first = true;
  for (const Product& p : products) {
    if (part.is_unused(p.a) || part.is_unused(p.b)) continue;
    Rows a(p.a, part.group, part.lanes, part.term, part.terms, of_a);
    Rows b(p.b, part.group, part.lanes, part.term, part.terms, of_b);
    if (a.is_one()) std::swap(a, b);
    if (a.is_one()) {  // both
      for (std::size_t j = 0; j < part.terms; ++j) of_a[j].fill(*a.row(j));
      const Factor filled{.first = of_a[0].data(), .group = 1, .term = kLanes};
      a = Rows(filled, 0, kLanes, 0, part.terms, of_a);
    }
    if (is_first)
      put_products<true>(a, b, part.terms, product, tile);
    else
      put_products<false>(a, b, part.terms, product, tile);
    is_first = false;
  }
  if (!is_first) add_pairs(tile, part.terms);
  return !is_first;
}

TG_INLINE void add_last(std::array<Lanes, 64>& sums, std::size_t& waiting) {
  for (std::size_t l = 0; l < kLanes; ++l) sums[waiting - 2][l] += sums[waiting - 1][l];
  --waiting;
}

/// The sums of groups `group` ... `group` + lanes - 1.
template <class F>
TG_INLINE void sum_lanes(std::span<const Product> products, std::size_t group, std::size_t lanes,
                         std::size_t terms, const F& product, Lanes& out) {
  std::array<Lanes, 64> sums;  // of tiles, of which each is a tree with a power of two of them
  std::size_t waiting = 0, tiles = 0;
  Tile tile;
  for (std::size_t term = 0; term < terms; term += kTerms, ++tiles) {
    const Part part{group, lanes, term, std::min(kTerms, terms - term)};
    if (!sum_part(products, part, product, tile)) tile[0].fill(0.0);
    sums[waiting++] = tile[0];
    for (std::size_t k = tiles + 1; k % 2 == 0; k /= 2) add_last(sums, waiting);
  }
  while (waiting > 1) add_last(sums, waiting);
  out = sums[0];
}

template <class F>
TG_INLINE void sum_groups(std::span<const Product> products, std::size_t groups, std::size_t terms,
                          const F& product, double* out) {
  Lanes sums;
  for (std::size_t group = 0; group < groups; group += kLanes) {
    const std::size_t lanes = std::min(kLanes, groups - group);
    sum_lanes(products, group, lanes, terms, product, sums);
    std::copy_n(sums.begin(), lanes, out + group);
  }
}

constexpr auto kPlain = [](double a, double b) { return a * b; };

#if defined(__clang__)
TG_WITH("avx512f,avx512vl,avx512dq")
#else
TG_WITH("avx512f,avx512vl,avx512dq,prefer-vector-width=512")
#endif
void sum_avx512(std::span<const Product> products, std::size_t groups, std::size_t terms,
                double* out) {
  sum_groups(products, groups, terms, kPlain, out);
}
TG_WITH("avx2")
void sum_avx2(std::span<const Product> products, std::size_t groups, std::size_t terms,
              double* out) {
  sum_groups(products, groups, terms, kPlain, out);
}
void sum_baseline(std::span<const Product> products, std::size_t groups, std::size_t terms,
                  double* out) {
  sum_groups(products, groups, terms, kPlain, out);
}

void sum_carefully(std::span<const Product> products, std::size_t groups, std::size_t terms,
                   double* out) {
  sum_groups(products, groups, terms, autodiff::zero_rule, out);
}

using Sum = void (*)(std::span<const Product>, std::size_t, std::size_t, double*);

Sum widest() {
#if defined(__x86_64__)
  if (platform::has_avx512()) return sum_avx512;
  if (platform::has_avx2()) return sum_avx2;
#endif
  return sum_baseline;
}

}  // namespace

void find_used(Factor& factor, std::size_t size) {
  const auto end = static_cast<std::int64_t>(size);
  factor.is_finite = true;
  for (std::int64_t k = 0; k < end; ++k) factor.is_finite &= std::isfinite(factor.first[k]);
  factor.first_used = 0;
  factor.last_used = end - 1;
  while (factor.first_used < end && factor.first[factor.first_used] == 0) ++factor.first_used;
  while (factor.last_used > factor.first_used && factor.first[factor.last_used] == 0)
    --factor.last_used;
}

void sum_products(std::span<const Product> products, std::size_t groups, std::size_t terms,
                  bool zero_rule, double* out) {
  static const Sum kSum = widest();
  const bool finite = std::ranges::all_of(
      products, [](const Product& p) { return p.a.is_finite && p.b.is_finite; });
  if (finite) {
    kSum(products, groups, terms, out);
  } else if (zero_rule) {
    sum_carefully(products, groups, terms, out);
  } else {  // nothing is left out
    std::vector<Product> all(products.begin(), products.end());
    for (Product& p : all)
      for (Factor* const factor : {&p.a, &p.b})
        factor->first_used = 0, factor->last_used = std::numeric_limits<std::int64_t>::max();
    kSum(all, groups, terms, out);
  }
  if (zero_rule)
    for (std::size_t g = 0; g < groups; ++g) out[g] += 0.0;
}

}  // namespace topograd::python
