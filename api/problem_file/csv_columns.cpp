// Reads columns of CSV files, with the positions of names in the problem file.
#include "csv_columns.hpp"

#include "../../ir/error.hpp"

#include <string>

namespace topograd::problem_file {
namespace {

/// The column that the item selects by name or by index from 0.
std::vector<double> selected(const Item& item, const CsvTable& table) {
  const Item::Json& json = item.json();
  const auto number = runtime::whole_number<std::size_t>(json);
  if (!item.is_string() && !number) item.fail_expected("the name of a column or its number from 0");
  try {
    return number ? table.column(*number) : table.column(json.get<std::string>());
  } catch (const Error& error) {
    item.fail(error.what());
  }
}

}  // namespace

std::uint32_t CsvColumns::width() const {
  return column_.is_array() ? static_cast<std::uint32_t>(column_.size()) : 1;
}

std::vector<double> CsvColumns::numbers() const {
  const CsvTable& table = this->table();
  if (!column_.is_array()) return selected(column_, table);
  if (column_.size() == 0) column_.fail_expected("at least one column");
  std::vector<std::vector<double>> columns;
  for (std::size_t k = 0; k < column_.size(); ++k)
    columns.push_back(selected(column_.at(k), table));
  std::vector<double> out;
  for (std::size_t row = 0; row < table.rows(); ++row)
    for (const std::vector<double>& numbers : columns) out.push_back(numbers[row]);
  return out;
}

std::vector<double> CsvColumns::single() const {
  if (width() != 1) column_.fail("expected one column, got " + std::to_string(width()));
  return numbers();
}

const CsvTable& CsvColumns::table() const {
  const std::string path = file_.string("the path of a CSV file");
  if (path.find('\0') != std::string::npos)
    file_.fail("expected the path of a CSV file, got one with the character \\u0000");
  if (header_ && !header_->is_bool()) header_->fail_expected("true or false");
  if (skip_missing_ && !skip_missing_->is_bool()) skip_missing_->fail_expected("true or false");
  try {
    const CsvTable& table = file_.source().table(path);
    if (!header_ || header_->boolean() == table.has_header()) return table;
  } catch (const Error& error) {
    file_.fail(error.what());
  }
  header_->fail("expected one value for " + path + ", got true and false");
}

}  // namespace topograd::problem_file
