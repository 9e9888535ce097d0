// The data columns of one batch on the CPU.
#pragma once

#include "../interpreter/interpreter.hpp"
#include "owner_sum.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// Numbers of the batch's data columns, as kernels read them. A column in which all instances have
/// the same bits is stored as one tile.
template <class T>
class DataColumns {
 public:
  explicit DataColumns(const ir::Batch& batch);

  /// Reads the columns again if they have changed.
  void refresh(const ir::Batch& batch);

  std::size_t size() const { return columns_.size(); }
  bool is_shared(std::size_t column) const { return columns_[column].shared; }
  ColumnSource<T> source(std::size_t column) const {
    return {columns_[column].numbers.data(), columns_[column].shared};
  }
  /// The column's numbers times `scale`.
  Stored<T> stored(std::size_t column, double scale) const;
  std::uint64_t bytes() const;

 private:
  struct Numbers {
    Column<T> numbers;
    bool shared = false;
  };
  void read(const ir::Batch& batch);

  std::uint64_t version_;
  std::vector<Numbers> columns_;
};

}  // namespace topograd::runtime::cpu
