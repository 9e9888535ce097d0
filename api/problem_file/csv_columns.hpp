// Columns of a CSV file that a problem file refers to.
#pragma once

#include "problem_file_item.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace topograd::problem_file {

/// An object {"csv": path, "column": name, number or list}, perhaps with "header",
/// "skip_missing" and other keys.
class CsvColumns {
 public:
  /// Throws Error{Parse} with the position for a missing key. `object` is_csv().
  explicit CsvColumns(const Item& object)
      : file_(object.get("csv")),
        column_(object.get("column")),
        header_(object.find("header")),
        skip_missing_(object.find("skip_missing")) {}

  /// Number of columns, which is the length of the rows of numbers().
  std::uint32_t width() const;
  /// The columns side by side, row by row. Throws Error{Parse} with the position.
  std::vector<double> numbers() const;
  /// The same for what must be a single column.
  std::vector<double> single() const;

 private:
  const CsvTable& table() const;

  Item file_, column_;
  std::optional<Item> header_, skip_missing_;
};

}  // namespace topograd::problem_file
