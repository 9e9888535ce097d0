// The index and data columns of all instances of one topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "row_storage.hpp"

namespace topograd::ir {

/// Constant numbers that a backend can read without the host.
class ResidentData {
 public:
  virtual ~ResidentData() = default;
  virtual std::size_t size() const = 0;
  /// Copies the numbers to the host. Safe on any thread. Throws the errors of their device.
  virtual std::vector<double> read() const = 0;
};

/// The rows of a data column: row i is number indices[i] of `numbers`.
struct ResidentColumn {
  using Indices = std::shared_ptr<const std::vector<std::uint32_t>>;
  std::shared_ptr<const ResidentData> numbers;
  Indices indices;
  /// For a batch whose rows are those of another batch in another order: the indices there.
  Indices indices_there = nullptr;
};

class ResidentColumns;

/// Rows of one topology, stored by column in blocks of rows. A problem of many topologies with few
/// instances each stays small, and appending to a long batch moves nothing.
///
/// Index columns come first (one for each parameter slot, then one for each uniform slot), then
/// data columns.
class Batch {
 public:
  static constexpr std::size_t kBlockRows = RowStorage::kRows;

  Batch(std::uint32_t parameters, std::uint32_t uniforms, std::uint32_t data);
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  std::size_t size() const { return size_; }
  std::uint32_t parameter_columns() const { return parameters_; }
  std::uint32_t uniform_columns() const { return index_columns() - parameters_; }
  std::uint32_t index_columns() const { return blocks_.index_columns(); }
  std::uint32_t data_columns() const { return blocks_.data_columns(); }

  /// Appends one row. `indices` has index_columns() entries, `data` data_columns(); `row` is the
  /// problem's first residual row of this instance.
  void append(std::span<const std::uint32_t> indices, std::span<const double> data,
              std::uint64_t row);

  /// Rows of one block that the caller must write: column c of row first + i is index[c * stride +
  /// i] or data[c * stride + i], its residual row is row[i].
  struct NewRows {
    std::size_t first = 0, count = 0, stride = 0;
    std::uint32_t* index = nullptr;
    double* data = nullptr;
    std::uint64_t* row = nullptr;
  };
  /// Appends `count` rows. The caller writes them, on any threads, before it uses the batch again.
  std::vector<NewRows> append_rows(std::size_t count);

  std::uint32_t index(std::size_t row, std::uint32_t column) const;
  double data(std::size_t row, std::uint32_t column) const;
  std::uint64_t residual_row(std::size_t row) const;
  void set_index(std::size_t row, std::uint32_t column, std::uint32_t value);
  void set_data(std::size_t row, std::uint32_t column, double value);
  void set_residual_row(std::size_t row, std::uint64_t value);
  /// Removes a row; the last row takes its place. Returns the row that moved (== `row` if none).
  std::size_t remove(std::size_t row);

  /// Copies rows [first, first + out.size()) of a column.
  void copy_index_column(std::uint32_t column, std::size_t first,
                         std::span<std::uint32_t> out) const;
  void copy_data_column(std::uint32_t column, std::size_t first, std::span<double> out) const;

  /// Makes a data column device-resident: its rows are read from `from.numbers`.
  ///
  /// The numbers are copied to the host when one of them is read. The next change of structure, or
  /// of one of these rows, copies them to the host and ends the residency.
  ///
  ///   from.indices  size() of them, each below from.numbers->size()
  void set_resident(std::uint32_t column, ResidentColumn from);
  /// Location of a device-resident column; null if the column is on the host alone.
  const ResidentColumn* resident(std::uint32_t column) const;
  bool has_resident() const { return resident_ != nullptr; }
  /// Ends the residency of the column without a copy: its rows are what the host memory holds.
  void forget_resident(std::uint32_t column);

  /// Version of the structure (rows, indices) or of the data, raised with every change. Users
  /// compare it with the version they have read.
  std::uint64_t structure_version() const { return structure_version_; }
  std::uint64_t data_version() const { return data_version_; }
  /// Version of the data that ignores new numbers of columns that were already device-resident.
  std::uint64_t own_data_version() const;

  /// Bytes of all columns in host memory, unused capacity included.
  std::size_t bytes() const;

 private:
  /// Copies device-resident columns to the host and ends their residency.
  void bring_back();

  std::uint32_t parameters_;
  std::size_t size_ = 0;
  std::uint64_t structure_version_ = 0, data_version_ = 0;
  RowStorage blocks_;
  std::unique_ptr<ResidentColumns> resident_;  // null: all columns are on the host alone
};

}  // namespace topograd::ir
