// Internal: the k largest by sorting.
#pragma once

#include "../operations.hpp"

namespace topograd::ops::detail {

/// top_k() of f32 or f64 without checks and derivatives, for at most kSortedRows rows. Cost: two
/// sorts of all entries, for any k.
TopK sorted_top_k(const Tensor& a, std::int64_t k);

/// Number of rows that f32 can represent.
inline constexpr std::int64_t kSortedRows = std::int64_t{1} << 22;

}  // namespace topograd::ops::detail
