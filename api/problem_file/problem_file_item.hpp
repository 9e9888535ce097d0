// Values of a problem file with their positions for messages, and columns of CSV files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../runtime/cache/json_values.hpp"
#include "csv.hpp"
#include "problem_file_document.hpp"

namespace topograd::problem_file {

/// A file and the tables that it refers to, each read once.
class Source {
 public:
  Source(const Document& document, const runtime::Json& json);

  const Document& document() const { return document_; }
  /// Throws Error{File}, and what CsvTable throws.
  const CsvTable& table(const std::string& path);
  /// The tables so far, by path.
  const std::map<std::string, CsvTable>& tables() const { return tables_; }

 private:
  const Document& document_;
  std::map<std::string, CsvPicks> picks_;  ///< columns that the whole file reads, by path
  std::map<std::string, CsvTable> tables_;
};

/// A value of the file and the path to it. A required value that is missing throws Error{Parse}
/// with the position.
class Item {
 public:
  using Json = runtime::Json;

  Item(Source& source, const Json& json, std::string pointer)
      : source_(source), json_(json), pointer_(std::move(pointer)) {}

  Source& source() const { return source_; }
  const Json& json() const { return json_; }
  const std::string& pointer() const { return pointer_; }
  bool is_array() const { return json_.is_array(); }
  bool is_string() const { return json_.is_string(); }
  bool is_number() const { return json_.is_number(); }
  bool is_bool() const { return json_.is_boolean(); }
  bool is_object() const { return json_.is_object(); }
  bool is_null() const { return json_.is_null(); }
  bool boolean() const { return json_.get<bool>(); }
  std::size_t size() const { return json_.size(); }

  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_expected(const std::string& what) const;

  Item at(std::size_t k) const { return {source_, json_[k], pointer_ + "/" + std::to_string(k)}; }
  std::optional<Item> find(const std::string& key) const;
  Item get(const std::string& key) const;
  std::vector<std::string> keys() const;

  /// Requires an object without other keys.
  const Item& object(std::initializer_list<std::string_view> known) const;
  const Item& array(const char* what) const;
  std::string string(const char* what) const;
  double number() const;
  std::uint32_t integer(const char* what, std::uint32_t least) const;
  int count() const;
  /// A list of numbers, or the columns of {"csv", "column"}.
  std::vector<double> numbers() const;
  /// A list of block numbers.
  std::vector<std::uint32_t> blocks() const;
  /// The same, or the column of {"csv", "column"}.
  std::vector<std::uint32_t> indices() const;

  /// True if numbers are columns of a CSV file, {"csv": path, "column": name, number or list},
  /// perhaps with "header": true or false.
  bool is_csv() const { return json_.is_object() && json_.contains("csv"); }
  /// The numbers of a {"csv", "column"} with a single column.
  std::vector<double> single_csv_column() const;

 private:
  Source& source_;
  const Json& json_;
  std::string pointer_;
};

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
