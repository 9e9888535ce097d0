// Internal: the k largest by sorting.
#pragma once

#include "search.hpp"

namespace topograd::ops::detail {

/// top_k() of f32 or f64 without its checks and derivatives, where the number of rows is at most
/// kSortedRows. Cost: two sorts of all entries, whatever k is.
TopK sorted_top_k(const Tensor& a, std::int64_t k);

/// Rows that f32 can number.
inline constexpr std::int64_t kSortedRows = std::int64_t{1} << 22;

}  // namespace topograd::ops::detail
