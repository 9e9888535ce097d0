// Numbers from the columns of CSV files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// The columns of a table that are read: they tell whether its first row holds names.
struct CsvPicks {
  std::vector<std::string> names;
  std::vector<std::size_t> numbers;  ///< from 0
  std::optional<bool> header;        ///< whether the first row holds names; empty: not stated
};

/// A table whose fields are separated by commas, semicolons or tabs, as detected in the first row.
/// Unless the picks state it, the first row holds names if a column is picked by a name and not all
/// of its fields are numbers, or if no column that is picked has a number there. Fields may be
/// quoted, with "" for a quote; empty rows and rows that begin with # are skipped.
class CsvTable {
 public:
  /// Throws Error{Parse}, "name:line: ...", for an empty table, an unterminated quote, and rows of
  /// different lengths. Cost: linear in the text.
  CsvTable(std::string text, const std::string& name, const CsvPicks& picks);

  /// Without the row of names.
  std::size_t rows() const { return rows_.size(); }
  /// True if the first row holds names.
  bool has_header() const { return !names_.empty(); }

  /// The numbers of a column, given by its name or its index from 0. Throws Error{Parse} with the
  /// line for an unknown column or a field that is not a finite number. Cost: linear in the text.
  std::vector<double> column(const std::string& column) const;
  std::vector<double> column(std::size_t column) const;

 private:
  struct Row {
    std::size_t line = 0, begin = 0;  ///< position in the text
  };
  std::string text_, name_;
  char separator_ = ',';
  std::size_t width_ = 0;  // fields per row
  std::vector<std::string> names_;
  std::vector<Row> rows_;  // without the row of names
};

}  // namespace topograd
