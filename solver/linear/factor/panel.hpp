// A few adjacent columns of a matrix, to which products of small blocks are added.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// A small matrix in larger storage: entry (i, j) is data[i * row + j * column].
struct Strided {
  const double* data;
  std::size_t row, column;
};

/// Asks for numbers that will be read soon, so that they are in the cache then.
inline void expect_numbers(const double* first, std::size_t count) {
  constexpr std::size_t kLine = 8;
  for (std::size_t k = 0; k < count; k += kLine) __builtin_prefetch(first + k);
}

/// Rows of a few adjacent columns, one after the other.
///
/// Values have the same bits on every processor.
class Panel {
 public:
  static constexpr std::uint32_t kMostColumns = 16;

  /// Adjacent rows of the panel, and the adjacent columns of E that are added to them.
  struct Run {
    std::uint32_t row;
    std::uint16_t at, count;  // the first column
  };

  /// Starts anew; entries of the rows are 0 if those of the panel before were cleared.
  void open(std::size_t rows, std::uint32_t columns);

  std::uint32_t columns() const { return columns_; }
  double& at(std::size_t row, std::uint32_t column) { return values_[row * stride_ + column]; }
  const double* row(std::size_t row) const { return &values_[row * stride_]; }
  /// Sets the entries of a row to 0.
  void clear(std::size_t row) { std::fill_n(&values_[row * stride_], stride_, 0.0); }

  /// Sets W for add(), times `sign`: depth × columns.
  void set_right(const Strided& W, std::uint32_t depth, double sign);
  /// Rows of the panel += columns of Eᵀ W. Products of an entry are summed in the order of rows of
  /// E first.
  ///
  ///   E  (depth, columns of the runs)
  void add(std::span<const Run> runs, const Strided& E);
  /// The same for rows in any order, with the column of E at the same index.
  void add(std::span<const std::uint32_t> rows, const Strided& E);

 private:
  template <std::uint32_t depth>
  void set_columns(const double* W, double sign);

  std::uint32_t columns_ = 0, stride_ = 0, depth_ = 0;  // the stride is a multiple of 4
  std::vector<double> values_, right_;                  // by rows of `stride_`
};

}  // namespace topograd
