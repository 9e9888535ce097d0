// Copies of batch columns, block by block on all threads.
#pragma once

#include "../../ir/batch/batch.hpp"
#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace topograd::runtime {

/// Copies rows [first, first + out.size()) of an index column, for T = std::uint32_t, or of a data
/// column.
template <class T>
void copy_column(const ir::Batch& batch, std::uint32_t column, std::size_t first,
                 std::span<T> out) {
  constexpr std::size_t kRows = ir::Batch::kBlockRows;
  ir::parallel_for(tbb::blocked_range<std::size_t>(0, out.size(), kRows), [&](const auto& range) {
    const std::span<T> part = out.subspan(range.begin(), range.size());
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      batch.copy_index_column(column, first + range.begin(), part);
    } else if constexpr (std::is_same_v<T, double>) {
      batch.copy_data_column(column, first + range.begin(), part);
    } else {
      std::array<double, kRows> wide;
      for (std::size_t at = 0; at < part.size(); at += kRows) {
        const std::size_t count = std::min(kRows, part.size() - at);
        batch.copy_data_column(column, first + range.begin() + at, std::span(wide).first(count));
        std::copy_n(wide.begin(), count, part.begin() + at);
      }
    }
  });
}

}  // namespace topograd::runtime
