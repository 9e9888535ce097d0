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
  /// Skip rows where a column that is read has no number: nothing, NA, N/A, NaN, null, none, ?, -
  /// or a point, in small or capital letters.
  bool skip_missing = false;
};

/// A table whose fields are separated by commas, semicolons, tabs or, where the first row has none
/// of them, by blanks; there a # begins a comment anywhere in a row.
/// Unless the picks state it, the first row holds names if a column is picked by a name and not all
/// of its fields are numbers, or if no column that is picked has a number there. Fields may be
/// quoted, with "" for a quote; empty rows and rows that begin with # are skipped.
class CsvTable {
 public:
  /// Throws Error{Parse}, "name:line: ...", for an empty table, an unterminated quote, rows of
  /// different lengths, and text in UTF-16. Cost: linear in the text.
  CsvTable(std::string text, const std::string& name, const CsvPicks& picks);

  /// Without the row of names.
  std::size_t rows() const { return rows_.size(); }
  /// Rows without a number where one is read; only with CsvPicks::skip_missing.
  std::optional<std::size_t> skipped() const { return skipped_; }
  /// True if the first row holds names.
  bool has_header() const { return !names_.empty(); }

  /// The numbers of a column, given by its name or its index from 0. Throws Error{Parse} with the
  /// line for an unknown column or a field that is not a finite number; it names decimal commas,
  /// dates and missing numbers. Cost: linear in the text.
  std::vector<double> column(const std::string& column) const;
  std::vector<double> column(std::size_t column) const;

 private:
  struct Row {
    std::size_t line = 0, begin = 0;  ///< position in the text
  };
  std::string text_, name_;
  char separator_ = ',';
  std::size_t width_ = 0;  // fields per row
  std::optional<std::size_t> skipped_;
  std::vector<std::string> names_;
  std::vector<Row> rows_;  // without the row of names
};

}  // namespace topograd
