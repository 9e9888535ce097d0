// The device-resident columns of a batch.
#pragma once

#include "resident_data.hpp"
#include "row_blocks.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace topograd::ir {

/// Locations of data columns on devices, and which of them were copied to the host.
class ResidentColumns {
 public:
  explicit ResidentColumns(std::size_t data_columns)
      : columns_(data_columns), here_(data_columns, true) {}

  void set(std::uint32_t column, ResidentColumn from);
  /// Null if the column is on the host alone.
  const ResidentColumn* find(std::uint32_t column) const {
    return columns_[column].numbers ? &columns_[column] : nullptr;
  }
  void forget(std::uint32_t column);
  bool empty() const;

  /// How often set() replaced a column that was already device-resident.
  std::uint64_t changes() const { return changes_; }
  /// Bytes on the host: lists of places.
  std::size_t bytes() const;

  /// Copies what is not on the host yet to these blocks. Any thread, also several at a time.
  void copy_to(const RowBlocks& blocks, std::size_t rows);

 private:
  std::vector<ResidentColumn> columns_;
  std::vector<bool> here_;
  std::uint64_t changes_ = 0;
  std::atomic<bool> all_here_ = false;
  std::mutex mutex_;  // serialises copy_to()
};

}  // namespace topograd::ir
