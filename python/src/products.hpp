// Sums of products of numbers at equal distances: convolutions, and matrices times vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace topograd::python {

/// Numbers of an array: that of group g and term j is first[offset + g group + j term].
struct Factor {
  const double* first = nullptr;
  std::int64_t offset = 0, group = 0, term = 0;
  /// Positions of the first and of the last number that is not 0; beyond these, terms are left out.
  std::int64_t first_used = 0, last_used = 0;
  bool is_finite = true;  ///< the whole array
};

/// Looks at the `size` numbers of the array of a factor.
void find_used(Factor& factor, std::size_t size);

struct Product {
  Factor a, b;
};

/// out[g] = Σ_j Σ_p a b, neighbours first, as in a tree: the terms j with the sums of one or two
/// products p.
///
///   zero_rule  0 times anything is 0, and sums are no negative zeros
///
/// Has the bits of the same operations one by one, but for the sign of a zero where terms are left
/// out. Cost: linear in groups times terms, some tenths of a nanosecond each.
void sum_products(std::span<const Product> products, std::size_t groups, std::size_t terms,
                  bool zero_rule, double* out);

}  // namespace topograd::python
