// The pattern of a symmetric block-sparse matrix.
#include "block_rows.hpp"

#include <algorithm>

namespace topograd::runtime {

std::uint32_t BlockRows::position(std::uint32_t row, std::uint32_t column) const {
  const auto columns = columns_of(row);
  const std::uint32_t first = columns_of(column)[this->row(column).diagonal];
  const auto at = std::ranges::lower_bound(columns, first);
  return this->row(row).values + static_cast<std::uint32_t>(at - columns.begin());
}

std::array<std::uint32_t, 4> BlockRows::places(std::uint32_t row, std::uint32_t column) const {
  return {position(row, column), this->row(row).length, position(column, row),
          this->row(column).length};
}

}  // namespace topograd::runtime
