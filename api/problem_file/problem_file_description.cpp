// Reads problem files: values of JSON and of tables, and the form that is required of them.
#include "problem_file_description.hpp"

#include "../../frontend/loss.hpp"
#include "../../frontend/manifold.hpp"
#include "../../ir/error.hpp"
#include "../../ir/text.hpp"
#include "../../runtime/cache/json_values.hpp"
#include "../../solver/option_table.hpp"
#include "csv.hpp"
#include "problem_file_document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::problem_file {
namespace {

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

using runtime::Json;

// Calls `read` for each item of the list at a key, which may be missing.
template <class Read>
void each(const Item& root, const std::string& key, Read read) {
  const std::optional<Item> list = root.find(key);
  if (!list) return;
  list->array("a list");
  for (std::size_t k = 0; k < list->size(); ++k) read(list->at(k));
}

/// Returns the result of `make`; adds the position in the file to range errors.
template <class Make>
auto made_from(const Item& item, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Parse) throw;
    item.fail(error.what());
  }
}

/// One number for all scalars, or a list with one number per scalar, where null means `open`.
std::vector<double> read_bounds(const Item& item, std::size_t scalars, double open) {
  if (item.is_number()) return std::vector<double>(scalars, item.number());
  item.array("a number or a list of them");
  if (item.size() != scalars)
    item.fail("expected one bound a scalar, " + std::to_string(scalars) + ", got " +
              std::to_string(item.size()));
  std::vector<double> out;
  for (std::size_t k = 0; k < scalars; ++k)
    out.push_back(item.at(k).is_null() ? open : item.at(k).number());
  return out;
}

/// Throws unless every value is within its bounds.
void check_start(const Item& values, const ArrayDescription& array) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < array.values.size(); ++k) {
    const double low = array.lower.empty() ? -kInfinity : array.lower[k];
    const double high = array.upper.empty() ? kInfinity : array.upper[k];
    if (array.values[k] >= low && array.values[k] <= high && low != high) continue;
    const Item value = values.is_array() ? values.at(k) : values;
    if (low >= high)
      value.fail("expected a lower bound below the upper one, got " + ir::print_number(low) +
                 " and " + ir::print_number(high) +
                 (low == high ? ": \"constant\" holds an unknown" : ""));
    value.fail("expected a start within its bounds [" + ir::print_number(low) + ", " +
               ir::print_number(high) + "], got " + ir::print_number(array.values[k]));
  }
}

Manifold read_manifold(const Item& item, std::uint32_t width) {
  const auto named = [&](const std::string& name) {
    const std::optional<Manifold> found = find_manifold(name, static_cast<int>(width));
    if (!found) item.fail_expected(manifold_names() + " or {\"subset\": [...]}");
    return *found;
  };
  Manifold manifold = made_from(item, [&] {
    if (!item.is_object()) return named(item.string("the name of a manifold"));
    std::vector<int> constant;
    for (const std::uint32_t k : item.object({"subset"}).get("subset").blocks())
      constant.push_back(static_cast<int>(k));
    return Manifold::subset(static_cast<int>(width), constant);
  });
  if (manifold.ambient_size() != static_cast<int>(width))
    item.fail("expected a manifold of blocks of " + std::to_string(width) + ", got " +
              manifold.name() + " of " + std::to_string(manifold.ambient_size()));
  return manifold;
}

/// "trivial", {"huber": a}, {"tolerant": [a, b]}, {"scaled": [loss, s]}, {"composed": [f, g]}.
Loss read_loss(const Item& item, int depth = 0) {
  constexpr int kDeepest = 64;  // limits recursion, so that no file overflows the stack
  if (depth > kDeepest) item.fail("expected losses at most " + std::to_string(kDeepest) + " deep");
  if (item.is_string()) {
    if (item.string("a loss") != "trivial") item.fail_expected("\"trivial\" or an object");
    return {};
  }
  item.object({
#define TG_LOSS1(loss, ...) #loss,
#define TG_LOSS2(loss, ...) #loss,
#include "../../frontend/losses.def"
      "scaled", "composed"});
  if (item.size() != 1) item.fail("expected one loss, got " + std::to_string(item.size()));
  const std::string key = item.keys().front();
  const Item value = item.get(key);
  const auto pair = [&](const char* what) {
    if (value.array(what).size() != 2) value.fail_expected(what);
  };
  return made_from(value, [&] {
    if (const LossRow* const loss = find_loss(key)) {
      if (number_count(*loss) == 1) return make_loss(*loss, std::array{value.number()});
      pair("a list of two numbers");
      return make_loss(*loss, std::array{value.at(0).number(), value.at(1).number()});
    }
    if (key == "scaled") {
      pair("a list of a loss and a number");
      return Loss::scaled(read_loss(value.at(0), depth + 1), value.at(1).number());
    }
    pair("a list of two losses");
    return Loss::composed(read_loss(value.at(0), depth + 1), read_loss(value.at(1), depth + 1));
  });
}

/// Reads width and numbers of an array: values or columns of a file.
void read_values(const Item& item, ArrayDescription& out) {
  if (item.is_csv() && item.find("values")) item.fail("expected \"values\" or \"csv\", got both");
  for (const char* key : {"column", "header", "skip_missing"})
    if (const auto found = item.find(key); found && !item.is_csv())
      found->fail("expected \"" + std::string(key) + "\" beside \"csv\"");
  const Item values = item.is_csv() ? item : item.get("values");
  if (values.is_csv()) out.width = CsvColumns(values).width();
  if (const auto width = item.find("width")) out.width = width->integer("a width from 1", 1);
  out.values = item.is_csv() ? CsvColumns(item).numbers() : values.numbers();
  if (out.values.empty() || out.values.size() % out.width != 0) {
    values.fail("expected blocks of " + std::to_string(out.width) + ", got " +
                std::to_string(out.values.size()) + " numbers");
  }
}

ArrayDescription read_array(const Item& item, bool parameters) {
  parameters ? item.object({"name", "width", "values", "csv", "column", "header", "skip_missing",
                            "constant", "lower", "upper", "manifold"})
             : item.object({"name", "width", "values", "csv", "column", "header", "skip_missing"});
  ArrayDescription out;
  out.pointer = item.pointer();
  out.name = item.get("name").string("a name");
  read_values(item, out);
  const Item values = item.is_csv() ? item : item.get("values");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (const auto lower = item.find("lower"))
    out.lower = read_bounds(*lower, out.values.size(), -kInfinity);
  if (const auto upper = item.find("upper"))
    out.upper = read_bounds(*upper, out.values.size(), kInfinity);
  check_start(values, out);
  if (const auto manifold = item.find("manifold"))
    out.manifold = read_manifold(*manifold, out.width);
  const auto constant = item.find("constant");
  if (constant && constant->is_bool()) {
    out.all_constant = constant->boolean();
  } else if (constant) {
    out.constant = constant->blocks();
    for (std::size_t k = 0; k < out.constant.size(); ++k) {
      if (out.constant[k] >= out.blocks())
        constant->at(k).fail("expected a block number below " + std::to_string(out.blocks()) +
                             ", got " + std::to_string(out.constant[k]));
    }
  }
  return out;
}

/// Reads an object in "data": numbers, columns of a file, or values with a width.
ArrayDescription read_named_data(const Item& item, const std::string& name) {
  ArrayDescription out;
  out.pointer = item.pointer();
  out.name = name;
  if (item.is_array()) {
    out.values = item.numbers();
    if (out.values.empty()) item.fail_expected("at least one number");
  } else {
    read_values(item.object({"width", "values", "csv", "column", "header", "skip_missing"}), out);
  }
  return out;
}

/// Reads a list of arrays with names, or an object {"name": numbers}.
std::vector<ArrayDescription> read_data(const Item& item) {
  std::vector<ArrayDescription> out;
  if (item.is_object()) {
    for (const std::string& name : item.keys())
      out.push_back(read_named_data(*item.find(name), name));
    return out;
  }
  item.array("a list or an object");
  for (std::size_t k = 0; k < item.size(); ++k) out.push_back(read_array(item.at(k), false));
  return out;
}

/// Reads a name, {array, index, coordinate}, {csv, column}, or (if numbers are allowed) a number or
/// a list of numbers.
Binding read_binding(const Item& item, const std::string& name, bool numbers) {
  Binding out;
  out.name = name;
  out.pointer = item.pointer();
  if (item.is_string()) {
    out.array = item.string("a name");
  } else if (numbers && item.is_number()) {
    out.numbers = {item.number()};
    out.one_for_all = true;
  } else if (numbers && (item.is_array() || item.is_csv())) {
    out.numbers = item.is_csv() ? item.single_csv_column() : item.numbers();
    if (out.numbers.empty()) item.fail_expected("at least one number");
  } else {
    item.object({"array", "index", "coordinate"});
    out.array = item.get("array").string("a name");
    const auto index = item.find("index");
    if (index && (index->is_array() || index->is_csv())) {
      out.index = index->indices();
      if (out.index.empty()) index->fail_expected("at least one block number");
    } else if (index) {
      out.block = index->integer("a block number or a list of them", 0);
    }
    if (const auto coordinate = item.find("coordinate"))
      out.coordinate = coordinate->integer("a coordinate from 0", 0);
  }
  return out;
}

/// Reads {"name": binding, ...}, or ["array", ...] for arrays that keep their names.
std::vector<Binding> read_bindings(const Item& block, const std::string& key, bool numbers) {
  std::vector<Binding> out;
  const auto found = block.find(key);
  if (!found) return out;
  if (found->is_array()) {
    for (std::size_t k = 0; k < found->size(); ++k) {
      const std::string name = found->at(k).string("the name of an array");
      out.push_back(read_binding(found->at(k), name, false));
    }
    return out;
  }
  if (!found->is_object()) found->fail_expected("an object or a list of names");
  for (const std::string& name : found->keys())
    out.push_back(read_binding(*found->find(name), name, numbers));
  return out;
}

BlockDescription read_block(const Item& item, BlockKind kind = BlockKind::residual) {
  if (is_constraint(kind)) {
    item.object({"label", "count", "expressions", "parameters", "data"});
  } else {
    item.object({"label", "count", "expressions", "parameters", "data", "weight", "loss"});
  }
  BlockDescription out;
  out.kind = kind;
  out.pointer = item.pointer();
  if (const auto label = item.find("label")) out.label = label->string("a text");
  if (const auto count = item.find("count")) out.count = count->integer("a count from 1", 1);
  const Item expressions = item.get("expressions");
  expressions.array("a list of expressions");
  for (std::size_t k = 0; k < expressions.size(); ++k)
    out.expressions.push_back(expressions.at(k).string("an expression"));
  if (out.expressions.empty()) expressions.fail_expected("at least one expression");
  out.parameters = read_bindings(item, "parameters", false);
  out.data = read_bindings(item, "data", true);
  if (const auto loss = item.find("loss")) out.loss = read_loss(*loss);
  if (const auto weight = item.find("weight")) out.weight = read_binding(*weight, "weight", true);
  return out;
}

OptionValue value_of(const Item& item) {
  if (item.is_bool()) return item.boolean();
  if (item.is_string()) return item.string("a text");
  if (item.json().is_number_integer()) return item.json().get<std::int64_t>();
  return item.number();
}

/// Reads options of the solver by the names of the table; a dot in a name is an object.
///
///   group  names of this object begin so
void read_options(const Item& item, const std::string& group, SolverOptions& options) {
  if (!item.is_object()) item.fail_expected("an object");
  std::vector<std::string> known;
  for (const SolverOption& option : option_table()) {
    if (!option.in_files || !option.name.starts_with(group)) continue;
    const std::string_view rest = option.name.substr(group.size());
    const std::string key(rest.substr(0, rest.find('.')));
    if (known.empty() || known.back() != key) known.push_back(key);
  }
  for (const std::string& key : item.keys()) {
    const Item value = *item.find(key);
    if (std::ranges::find(known, key) == known.end()) {
      std::string names;
      for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
      value.fail("expected one of the keys " + names + ", got \"" + key + "\"");
    }
    const SolverOption* const option = find_option(group + key);
    if (option == nullptr) {
      read_options(value, group + key + ".", options);
      continue;
    }
    try {
      set(*option, options, value_of(value));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Parse) throw;
      value.fail(error.what());
    }
  }
}

using runtime::json_error_text;

Json parse_json(const Document& document) {
  // Versions of the library say different things about it.
  if (document.text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    problem_file::fail_at(document, 0, "expected a JSON object, got an empty text");
  try {
    return runtime::parse_json(document.text);
  } catch (const Json::parse_error& error) {
    const std::size_t last = std::min(error.byte, document.text.size() + 1);
    problem_file::fail_at(document, last > 0 ? last - 1 : 0, json_error_text(error.what()));
  } catch (const Json::out_of_range& error) {
    // The number is too large; the message has it between quotes.
    const std::string message = json_error_text(error.what());
    const std::size_t first = message.find('\''), last = message.rfind('\'');
    const std::size_t at =
        first < last ? document.text.find(message.substr(first + 1, last - first - 1)) : 0;
    problem_file::fail_at(document, at == std::string::npos ? 0 : at, message);
  }
}

}  // namespace

Description read_description(const Document& document) {
  const Json json = parse_json(document);
  if (const std::size_t at = find_repeated_key(document.text); at != std::string_view::npos) {
    const std::string_view key = document.text.substr(at, document.text.find('"', at + 1) + 1 - at);
    fail_at(document, at, "the key " + std::string(key) + " is there twice");
  }
  Source source(document, json);
  const Item root(source, json, "");
  root.object({"title", "repeat", "parameters", "uniforms", "data", "residuals", "equalities",
               "inequalities", "solver", "$schema"});
  Description out;
  if (const auto title = root.find("title")) out.title = title->string("a text");
  if (const auto copies = root.find("repeat")) out.repeat = copies->integer("a count from 1", 1);
  if (const auto schema = root.find("$schema")) schema->string("a text");
  each(root, "parameters",
       [&](const Item& item) { out.parameters.push_back(read_array(item, true)); });
  if (const auto data = root.find("data")) out.data = read_data(*data);
  each(root, "uniforms", [&](const Item& item) {
    item.object({"name", "value"});
    out.uniforms.push_back(
        {item.get("name").string("a name"), item.get("value").number(), item.pointer()});
  });
  each(root, "residuals", [&](const Item& item) { out.residuals.push_back(read_block(item)); });
  each(root, "equalities",
       [&](const Item& item) { out.constraints.push_back(read_block(item, BlockKind::equality)); });
  each(root, "inequalities", [&](const Item& item) {
    out.constraints.push_back(read_block(item, BlockKind::inequality));
  });
  if (out.parameters.empty()) root.fail("expected \"parameters\" with at least one array");
  if (out.residuals.empty()) root.fail("expected \"residuals\" with at least one block");
  if (const auto solver = root.find("solver")) read_options(*solver, "", out.options);
  for (const auto& [path, table] : source.tables())
    out.tables.push_back({path, table.rows(), table.has_header(), table.skipped()});
  return out;
}

namespace {

/// Numbers and instances that a file may have without lists of that length.
constexpr std::size_t kMostRepeated = std::size_t{1} << 24;

class Repeater {
 public:
  Repeater(const Document& document, Description& description)
      : document_(document), d_(description), copies_(description.repeat) {}

  void run() {
    if (!d_.constraints.empty())
      fail(document_, "/repeat", "expected a problem without constraints");
    for (BlockDescription& block : d_.residuals) repeat_block(block);
    std::size_t scalars = 0;
    for (const ArrayDescription& array : d_.parameters) scalars += array.values.size();
    require_few(scalars, "/parameters");
    for (ArrayDescription& array : d_.parameters) repeat_array(array);
  }

 private:
  void require_few(std::size_t of_one, const std::string& pointer) const {
    if (of_one <= kMostRepeated / copies_) return;
    fail(document_, "/repeat",
         "expected at most " + std::to_string(kMostRepeated / of_one) + " problems, as each has " +
             std::to_string(of_one) + " numbers and instances in " + pointer + ", got " +
             std::to_string(copies_));
  }

  const ArrayDescription* find(const std::vector<ArrayDescription>& arrays,
                               const Binding& binding) const {
    const auto found = std::ranges::find(arrays, binding.array, &ArrayDescription::name);
    return found == arrays.end() ? nullptr : &*found;
  }

  /// Entries of a binding; 0: one for any number of instances.
  static std::size_t entries(const Binding& binding, const ArrayDescription* array) {
    if (!binding.index.empty()) return binding.index.size();
    if (!binding.numbers.empty()) return binding.one_for_all ? 0 : binding.numbers.size();
    if (array == nullptr || binding.block || array->blocks() == 1) return 0;
    return array->blocks();
  }

  /// Instances of the block in one problem. Lists have one entry for each of them, or for each in
  /// all problems.
  std::size_t count_of(const BlockDescription& block, const std::vector<std::size_t>& lists) const {
    if (block.count) return *block.count;
    if (lists.empty()) return 1;
    const auto [least, most] = std::ranges::minmax(lists);
    if (least != most) return least;
    if (most % copies_ == 0) return most / copies_;
    fail(document_, block.pointer,
         "expected lists of a multiple of " + std::to_string(copies_) +
             " entries, as \"repeat\" says, got " + std::to_string(most));
  }

  void repeat_block(BlockDescription& block) {
    std::vector<std::size_t> lists, of_parameters;
    for (const Binding& b : block.parameters)
      if (const std::size_t n = entries(b, find(d_.parameters, b)); n > 0)
        of_parameters.push_back(n);
    const auto add = [&](const Binding& b) {
      if (const std::size_t n = entries(b, find(d_.data, b)); n > 0) lists.push_back(n);
    };
    for (const Binding& b : block.data) add(b);
    if (block.weight) add(*block.weight);
    // Unknowns are those of one problem.
    const std::size_t count = of_parameters.empty() ? count_of(block, lists) : of_parameters[0];
    const bool told_apart =
        std::ranges::any_of(lists, [&](std::size_t n) { return n == count * copies_; });
    if (!told_apart)
      require_few(count * (1 + block.parameters.size() + block.data.size()), block.pointer);
    for (Binding& b : block.parameters) repeat_unknowns(b, count);
    for (Binding& b : block.data) repeat_numbers(b, count);
    if (block.weight) repeat_numbers(*block.weight, count);
    block.count = static_cast<std::uint32_t>(count * copies_);
  }

  void repeat_unknowns(Binding& binding, std::size_t count) const {
    const ArrayDescription* const array = find(d_.parameters, binding);
    if (array == nullptr) return;  // named when the problem is built
    const std::size_t blocks = array->blocks(), n = entries(binding, array);
    if (n > 0 && n != count)
      fail(document_, binding.pointer,
           "expected " + std::to_string(count) + " entries of one problem, got " +
               std::to_string(n));
    std::vector<std::uint32_t> index;
    index.reserve(count * copies_);
    for (std::size_t c = 0; c < copies_; ++c) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t block = !binding.index.empty() ? binding.index[i]
                                  : n == 0               ? binding.block.value_or(0)
                                                         : i;
        if (block >= blocks)
          fail(document_, binding.pointer + "/index",
               "expected a block of " + array->name + " below " + std::to_string(blocks) +
                   ", got " + std::to_string(block));
        index.push_back(static_cast<std::uint32_t>(c * blocks + block));
      }
    }
    binding.index = std::move(index);
    binding.block.reset();
  }

  /// Lists of one problem are repeated; those of all stay.
  void repeat_numbers(Binding& binding, std::size_t count) const {
    const ArrayDescription* const array = find(d_.data, binding);
    const std::size_t n = entries(binding, array);
    if (n == 0 || n == count * copies_) return;
    if (n != count)
      fail(document_, binding.pointer,
           "expected " + std::to_string(count) + " entries of one problem, or " +
               std::to_string(count * copies_) + " of all, got " + std::to_string(n));
    if (!binding.numbers.empty()) {
      tile(binding.numbers);
      return;
    }
    if (binding.index.empty())
      for (std::size_t i = 0; i < count; ++i)
        binding.index.push_back(static_cast<std::uint32_t>(i));
    tile(binding.index);
  }

  template <class T>
  void tile(std::vector<T>& list) const {
    const std::size_t n = list.size();
    list.reserve(n * copies_);
    for (std::size_t k = n; k < n * copies_; ++k) list.push_back(list[k - n]);
  }

  void repeat_array(ArrayDescription& array) const {
    const auto blocks = static_cast<std::uint32_t>(array.blocks());
    const std::size_t fixed = array.constant.size();
    for (std::uint32_t c = 1; c < copies_; ++c)
      for (std::size_t k = 0; k < fixed; ++k)
        array.constant.push_back(array.constant[k] + c * blocks);
    tile(array.values);
    tile(array.lower);
    tile(array.upper);
  }

  const Document& document_;
  Description& d_;
  std::size_t copies_;
};

}  // namespace

void repeat(const Document& document, Description& description) {
  if (description.repeat > 1) Repeater(document, description).run();
}

}  // namespace topograd::problem_file
