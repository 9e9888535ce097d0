// Reads the values of a problem file: JSON, and the tables that it refers to.
#include "problem_file_item.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "../../ir/error.hpp"
#include "../../ir/text.hpp"

namespace topograd::problem_file {
namespace {

void add_pick(const runtime::Json& column, CsvPicks& picks) {
  if (column.is_string()) picks.names.push_back(column.get<std::string>());
  if (column.is_number_unsigned()) picks.numbers.push_back(column.get<std::size_t>());
}

/// Adds the columns that a value and the values in it read. The depth of the JSON is bounded.
void add_picks(const runtime::Json& json, std::map<std::string, CsvPicks>& all) {
  if (!json.is_structured()) return;
  for (const runtime::Json& part : json) add_picks(part, all);
  if (!json.is_object() || !json.contains("csv") || !json.contains("column")) return;
  const runtime::Json& path = json["csv"];
  if (!path.is_string()) return;
  CsvPicks& picks = all[path.get<std::string>()];
  const runtime::Json& columns = json["column"];
  add_pick(columns, picks);
  if (columns.is_array())
    for (const runtime::Json& column : columns) add_pick(column, picks);
  if (const auto header = json.find("header"); header != json.end() && header->is_boolean())
    picks.header = header->get<bool>();
  if (const auto skip = json.find("skip_missing"); skip != json.end() && skip->is_boolean())
    picks.skip_missing = picks.skip_missing || skip->get<bool>();
}

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

Source::Source(const Document& document, const runtime::Json& json) : document_(document) {
  add_picks(json, picks_);
}

const CsvTable& Source::table(const std::string& path) {
  const auto found = tables_.find(path);
  if (found != tables_.end()) return found->second;
  return tables_.emplace(path, CsvTable(document_.read_file(path), path, picks_[path]))
      .first->second;
}

void Item::fail(const std::string& message) const {
  problem_file::fail(source_.document(), pointer_, message);
}

void Item::fail_expected(const std::string& what) const {
  fail("expected " + what + ", got " + runtime::shown(json_));
}

std::optional<Item> Item::find(const std::string& key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) return std::nullopt;
  return Item(source_, *found, pointer_ + "/" + key);
}

Item Item::get(const std::string& key) const {
  const std::optional<Item> found = find(key);
  if (!found) fail("expected the key \"" + key + "\"");
  return *found;
}

std::vector<std::string> Item::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_.items()) keys.push_back(key);
  return keys;
}

const Item& Item::object(std::initializer_list<std::string_view> known) const {
  if (!json_.is_object()) fail_expected("an object");
  for (const std::string& key : keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
    find(key)->fail("expected one of the keys " + list + ", got \"" + key + "\"");
  }
  return *this;
}

const Item& Item::array(const char* what) const {
  if (!json_.is_array()) fail_expected(what);
  return *this;
}

std::string Item::string(const char* what) const {
  if (!json_.is_string()) fail_expected(what);
  return json_.get<std::string>();
}

double Item::number() const {
  if (!json_.is_number()) fail_expected("a number");
  return json_.get<double>();
}

std::uint32_t Item::integer(const char* what, std::uint32_t least) const {
  const auto value = runtime::whole_number<std::uint32_t>(json_);
  constexpr std::uint32_t kBeyond = std::numeric_limits<std::uint32_t>::max();
  if (json_.is_number_integer() && json_.get<double>() >= kBeyond)
    fail_expected(what + (" that is below " + std::to_string(kBeyond)));
  if (!value || *value < least) fail_expected(what);
  return *value;
}

int Item::count() const {
  const std::uint32_t value = integer("a count from 0", 0);
  if (value > static_cast<std::uint32_t>(std::numeric_limits<int>::max()))
    fail_expected("a count below 2^31");
  return static_cast<int>(value);
}

std::vector<double> Item::numbers() const {
  if (is_csv()) return CsvColumns(object({"csv", "column", "header", "skip_missing"})).numbers();
  std::vector<double> out;
  out.reserve(array("a list of numbers").size());
  for (std::size_t k = 0; k < size(); ++k) {
    if (!json_[k].is_number()) at(k).fail_expected("a number");
    out.push_back(json_[k].get<double>());
  }
  return out;
}

std::vector<std::uint32_t> Item::blocks() const {
  std::vector<std::uint32_t> out;
  out.reserve(array("a list of block numbers").size());
  for (std::size_t k = 0; k < size(); ++k) {
    const auto block = runtime::whole_number<std::uint32_t>(json_[k]);
    if (!block || *block == std::numeric_limits<std::uint32_t>::max())
      at(k).fail_expected("a block number from 0");
    out.push_back(*block);
  }
  return out;
}

std::vector<std::uint32_t> Item::indices() const {
  if (!is_csv()) return blocks();
  std::vector<std::uint32_t> out;
  for (const double block : single_csv_column()) {
    if (!(block >= 0) || block != std::floor(block) ||
        block >= std::numeric_limits<std::uint32_t>::max())
      fail("expected block numbers from 0, got " + ir::print_number(block));
    out.push_back(static_cast<std::uint32_t>(block));
  }
  return out;
}

std::vector<double> Item::single_csv_column() const {
  return CsvColumns(object({"csv", "column", "header", "skip_missing"})).single();
}

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
