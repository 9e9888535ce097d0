// The JSON Schema of problem files agrees with their reader.
#include "../support/golden.hpp"
#include "../support/manual.hpp"
#include "../support/paths.hpp"

#include "../../api/problem_file.hpp"
#include "../../ir/error.hpp"
#include "../../solver/option_table.hpp"
#include "../../solver/solve.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

namespace topograd::test {
namespace {

using Json = nlohmann::json;

Json schema() { return Json::parse(read_file(source_dir() / "docs/problem-file.schema.json")); }

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

/// The part of JSON Schema that the file uses; unknown keywords fail.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool valid(const Json& value, const Json& rule) const {
    for (const auto& [word, says] : rule.items()) {
      if (!holds(value, rule, word, says)) return false;
    }
    return true;
  }

 private:
  bool holds(const Json& value, const Json& rule, const std::string& word, const Json& says) const {
    if (word == "$schema" || word == "title" || word == "description" || word == "$defs")
      return true;
    if (word == "$ref")
      return valid(value, root_.at(Json::json_pointer(says.get<std::string>().substr(1))));
    if (word == "type") return is_of(value, says);
    if (word == "const") return value == says;
    if (word == "enum") return std::find(says.begin(), says.end(), value) != says.end();
    if (word == "anyOf")
      return std::any_of(says.begin(), says.end(), [&](const Json& s) { return valid(value, s); });
    if (word == "minimum") return !value.is_number() || value >= says;
    if (word == "exclusiveMinimum") return !value.is_number() || value > says;
    if (word == "maximum") return !value.is_number() || value <= says;
    if (word == "exclusiveMaximum") return !value.is_number() || value < says;
    if (word == "minItems") return !value.is_array() || value.size() >= says;
    if (word == "maxItems") return !value.is_array() || value.size() <= says;
    if (word == "minProperties") return !value.is_object() || value.size() >= says;
    if (word == "maxProperties") return !value.is_object() || value.size() <= says;
    if (word == "items" || word == "prefixItems") return items_hold(value, word, says);
    if (word == "dependentRequired") {
      for (const auto& [key, needed] : says.items())
        if (value.is_object() && value.contains(key) && !valid(value, {{"required", needed}}))
          return false;
      return true;
    }
    if (word == "required")
      return !value.is_object() || std::all_of(says.begin(), says.end(), [&](const Json& key) {
        return value.contains(key.get<std::string>());
      });
    if (word == "properties" || word == "additionalProperties")
      return members_hold(value, rule, word, says);
    ADD_FAILURE() << "the word " << word << " of the schema is not known here";
    return false;
  }

  static bool is_of(const Json& value, const Json& types) {
    if (types.is_string()) return has_type(value, types);
    return std::any_of(types.begin(), types.end(),
                       [&](const Json& type) { return has_type(value, type); });
  }

  bool items_hold(const Json& value, const std::string& word, const Json& says) const {
    if (!value.is_array()) return true;
    for (std::size_t k = 0; k < value.size(); ++k) {
      if (word == "items" && !valid(value[k], says)) return false;
      if (word == "prefixItems" && k < says.size() && !valid(value[k], says[k])) return false;
    }
    return true;
  }

  bool members_hold(const Json& value, const Json& rule, const std::string& word,
                    const Json& says) const {
    if (!value.is_object()) return true;
    for (const auto& [key, member] : value.items()) {
      const bool named = rule.contains("properties") && rule["properties"].contains(key);
      if (word == "properties" && named && !valid(member, says[key])) return false;
      if (word == "properties" || named) continue;
      if (says.is_boolean() ? !says.get<bool>() : !valid(member, says)) return false;
    }
    return true;
  }

  const Json& root_;
};

bool reads(const std::string& text) {
  try {
    parse_problem_file(text, "f.json", [](const std::string&) { return "a,c\n0,1\n"; });
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(ProblemFileSchema, HoldsForTheSamples) {
  const Json rules = schema();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "samples/data")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    EXPECT_TRUE(Validator(rules).valid(Json::parse(read_file(entry.path())), rules))
        << entry.path();
  }
  EXPECT_GE(files, 1);
}

/// The whole file with one piece replaced.
std::string with(const std::string& parameters, const std::string& residual,
                 const std::string& rest) {
  return R"({"parameters": [{"name": "v", "width": 2, "values": [1, 2])" + parameters +
         R"(}], "data": [{"name": "d", "values": [1]}], "residuals": [{"expressions": ["a.x"], )" +
         R"("parameters": {"a": "v"})" + residual + "}]" + rest + "}";
}

/// The whole file with other data, which nothing reads.
std::string with_data(const std::string& data) {
  std::string file = with("", "", "");
  const std::string known = R"([{"name": "d", "values": [1]}])";
  return file.replace(file.find(known), known.size(), data);
}

TEST(ProblemFileSchema, TakesWhatTheReaderTakes) {
  const std::string files[] = {
      with("", "", ""),
      with(R"(, "constant": true)", "", ""),
      with(R"(, "constant": [0])", "", ""),
      with(R"(, "constant": 0)", "", ""),
      with(R"(, "lower": -1, "upper": [3, null])", "", ""),
      with(R"(, "lower": "x")", "", ""),
      with(R"(, "manifold": "sphere")", "", ""),
      with(R"(, "manifold": {"subset": [1]})", "", ""),
      with(R"(, "manifold": "torus")", "", ""),
      with(R"(, "manifold": {"sphere": [1]})", "", ""),
      with("", R"(, "label": "l", "count": 1, "weight": 2.5)", ""),
      with("", R"(, "label": 1)", ""),
      with("", R"(, "count": 0)", ""),
      with("", R"(, "weight": [1])", ""),
      with("", R"(, "weight": "d")", ""),
      with("", R"(, "weight": true)", ""),
      with("", R"(, "data": {"e": {"csv": "t.csv", "column": "c"}})", ""),
      with("", R"(, "data": {"e": {"csv": "t.csv"}})", ""),
      with("", R"(, "data": {"e": {"csv": "t.csv", "column": -1}})", ""),
      with("", R"(, "data": {"e": {"csv": "t.csv", "column": ["c"]}})", ""),
      with("", R"(, "weight": {"csv": "t.csv", "column": 0})", ""),
      with("", R"(, "data": {"e": {"array": "d", "index": {"csv": "t.csv", "column": 0}}})", ""),
      with_data(R"({"e": [1], "f": {"csv": "t.csv", "column": [0, "c"]},
                    "g": {"width": 2, "values": [1, 2]}})"),
      with_data(R"([{"name": "e", "csv": "t.csv", "column": 0},
                    {"name": "f", "values": {"csv": "t.csv", "column": "c"}}])"),
      with("", R"(, "weight": {"csv": "t.csv", "column": 0, "header": true})", ""),
      with("", R"(, "weight": {"csv": "t.csv", "column": 0, "header": 1})", ""),
      with_data(R"({"e": {"csv": "t.csv", "column": 0, "header": true}})"),
      with_data(R"({"e": {"width": 1, "values": [1], "header": true}})"),
      with_data(R"([{"name": "e", "csv": "t.csv", "column": 0, "header": true}])"),
      with_data(R"([{"name": "e", "values": [1], "column": 0}])"),
      with_data(R"([{"name": "e", "values": {"csv": "t.csv", "column": 0, "header": true}}])"),
      with_data(R"({"e": {"csv": "t.csv"}})"),
      with_data(R"({"e": {"values": 1}})"),
      with_data(R"({"e": {"name": "f", "values": [1]}})"),
      with_data(R"({"e": []})"),
      with_data(R"([{"name": "e"}])"),
      with_data("7"),
      with("", R"(, "data": {"e": {"array": "d", "index": 0, "coordinate": 0}})", ""),
      with("", R"(, "data": {"e": {"array": "d", "index": [0]}})", ""),
      with("", R"(, "data": {"e": {"index": [0]}})", ""),
      with("", R"(, "data": {"e": {"array": "d", "block": 0}})", ""),
      with("", R"(, "data": ["d"])", ""),
      with("", R"(, "data": [1])", ""),
      with("", R"(, "loss": "trivial")", ""),
      with("", R"(, "loss": "huber")", ""),
      with("", R"(, "loss": {"huber": 1})", ""),
      with("", R"(, "loss": {"huber": 1, "cauchy": 1})", ""),
      with("", R"(, "loss": {"scaled": [{"tolerant": [1, 2]}, 3]})", ""),
      with("", R"(, "loss": {"scaled": [3, {"tolerant": [1, 2]}]})", ""),
      with("", R"(, "loss": {"composed": [{"tukey": 1}, "trivial"]})", ""),
      with("", R"(, "loss": {"geman": 1})", ""),
      with("", "", R"(, "title": "t", "$schema": "s", "uniforms": [{"name": "u", "value": 1}])"),
      with("", "", R"(, "uniforms": [{"name": "u"}])"),
      with("", "", R"(, "uniforms": {})"),
      with("", "", R"(, "name": "t")"),
      with("", "", R"(, "solver": {"threads": 2, "dogleg_type": "subspace"})"),
      with("", "", R"(, "solver": {"threads": -2})"),
      with("", "", R"(, "solver": {"use_nonmonotonic_steps": 1})"),
  };
  const Json rules = schema();
  for (const std::string& file : files)
    EXPECT_EQ(Validator(rules).valid(Json::parse(file), rules), reads(file)) << file;
}

/// The part between two texts in the error of reading a file.
std::string listed(const std::string& file, const std::string& before, const std::string& after) {
  try {
    parse_problem_file(file, "f.json");
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::size_t first = message.find(before);
    if (first == std::string::npos) return message;
    const std::size_t begin = first + before.size(), end = message.find(after, begin);
    return message.substr(begin, end == std::string::npos ? end : end - begin);
  }
  return "no error";
}

std::set<std::string> words(const std::string& list) {
  std::set<std::string> out;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(", ", at), list.size());
    out.insert(list.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

std::set<std::string> keys(const Json& rule) {
  std::set<std::string> out;
  for (const auto& [key, value] : rule.at("properties").items()) out.insert(key);
  return out;
}

TEST(ProblemFileSchema, HasTheKeysOfTheReader) {
  const Json rules = schema();
  const Json& defs = rules["$defs"];
  const struct {
    const char* name;
    const Json& rule;
    std::string file;
  } rows[] = {
      {"root", rules, R"({"?": 0})"},
      {"parameters", defs["parameters"], with(R"(, "?": 0)", "", "")},
      {"data", defs["data"], R"({"data": [{"?": 0}]})"},
      {"uniform", defs["uniform"], with("", "", R"(, "uniforms": [{"?": 0}])")},
      {"residuals", defs["residuals"], with("", R"(, "?": 0)", "")},
      {"selection", defs["selection"], with("", R"(, "data": {"e": {"?": 0}})", "")},
      {"subset", defs["subset"], with(R"(, "manifold": {"?": 0})", "", "")},
      {"robust", defs["robust"], with("", R"(, "loss": {"?": 0})", "")},
      {"solver", defs["solver"], with("", "", R"(, "solver": {"?": 0})")},
  };
  for (const auto& row : rows)
    EXPECT_EQ(keys(row.rule), words(listed(row.file, "expected one of the keys ", ", got \"?\"")))
        << row.name;
}

/// The rule of an option's value.
std::string rule_of(const SolverOption& option) {
  const auto listed = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + '"';
    return "{\"enum\": [" + text + "]}";
  };
  const auto bounded = [&](const std::string& type) {
    std::string text = "{\"type\": \"" + type + '"';
    const SolverOptionRange& range = option.range;
    if (std::isfinite(range.least))
      text += std::string(", \"") + (range.without_least ? "exclusiveMinimum" : "minimum") +
              "\": " + std::to_string(static_cast<int>(range.least));
    if (std::isfinite(range.most))
      text += std::string(", \"") + (range.without_most ? "exclusiveMaximum" : "maximum") +
              "\": " + std::to_string(static_cast<int>(range.most));
    return text + "}";
  };
  switch (option.kind) {
    case OptionKind::flag: return R"({"type": "boolean"})";
    case OptionKind::count: return bounded("integer");
    case OptionKind::number: return bounded("number");
    case OptionKind::choice: return listed(option.choices());
    case OptionKind::text: break;
  }
  return R"({"type": "string"})";
}

/// Rules of the options whose names begin so, as lines of an object.
std::string rules_of(const std::string& group, const std::string& indent) {
  std::string text, last;
  for (const SolverOption& option : option_table()) {
    if (!option.in_files || !option.name.starts_with(group)) continue;
    const std::string rest(option.name.substr(group.size()));
    const std::string key = rest.substr(0, rest.find('.'));
    if (key == last) continue;
    last = key;
    text += (text.empty() ? "" : ",\n") + indent + '"' + key + "\": ";
    if (key == rest) {
      text += rule_of(option);
    } else {
      text += "{\n" + indent + "  \"type\": \"object\",\n" + indent +
              "  \"additionalProperties\": false,\n" + indent + "  \"properties\": {\n" +
              rules_of(group + key + ".", indent + "    ") + "\n" + indent + "  }\n" + indent + "}";
    }
  }
  return text;
}

TEST(ProblemFileSchema, HasTheOptionsOfTheTable) {
  std::string text = read_file(source_dir() / "docs/problem-file.schema.json");
  const std::size_t solver = text.find("\"solver\": {\n");
  ASSERT_NE(solver, text.npos);
  const std::string begins = "      \"properties\": {\n", ends = "\n      }\n    },";
  const std::size_t first = text.find(begins, solver) + begins.size();
  const std::size_t last = text.find(ends, first);
  ASSERT_NE(last, text.npos);
  text.replace(first, last - first, rules_of("", "        "));
  test::expect_golden("docs/problem-file.schema.json", text);
}

TEST(ProblemFileSchema, HasTheLosses) {
  std::string text = read_file(source_dir() / "docs/problem-file.schema.json"), losses;
  for (const LossRow& row : kLosses) {
    losses += "        \"" + std::string(row.name) + "\": ";
    losses += row.one != nullptr ? "{\"type\": \"number\"},\n"
                                 : "{\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, "
                                   "\"items\": {\"type\": \"number\"}},\n";
  }
  const std::string first = "        \"" + std::string(kLosses[0].name) + "\": ";
  const std::size_t begin = text.find(first), end = text.find("        \"scaled\": {");
  ASSERT_LT(begin, end);
  test::expect_golden("docs/problem-file.schema.json", text.replace(begin, end - begin, losses));
}

/// Names or the type and range of a value.
template <class Rule>
std::string values_of(const Rule& rule) {
  if (rule.contains("enum")) {
    std::string names;
    for (const auto& name : rule["enum"])
      names += (names.empty() ? "`" : ", `") + name.template get<std::string>() + "`";
    return names;
  }
  std::string text = rule["type"].template get<std::string>();
  if (text == "boolean") return "`true`, `false`";
  if (text == "object") {
    text.clear();
    for (const auto& [key, value] : rule["properties"].items())
      text += (text.empty() ? "`" : "; `") + key + "`: " + values_of(value);
    return text;
  }
  if (rule.contains("minimum")) text += " ≥ " + rule["minimum"].dump();
  if (rule.contains("exclusiveMinimum")) text += " > " + rule["exclusiveMinimum"].dump();
  if (rule.contains("exclusiveMaximum")) text += ", < " + rule["exclusiveMaximum"].dump();
  return text;
}

/// The manual's table of the keys of one object. Those of `solver` are described elsewhere.
std::string key_table(const std::string& text, const std::string& name, bool described) {
  const auto ordered = nlohmann::ordered_json::parse(text);
  const auto& rule = name == "keys" ? ordered : ordered["$defs"][name];
  std::string table = described ? "| key | content |\n" : "| key | values |\n";
  table += "|---|---|\n";
  for (const auto& [key, value] : rule["properties"].items()) {
    if (described) {
      EXPECT_TRUE(value.contains("description")) << name << ": " << key;
    }
    table += "| `" + key + "` | " +
             (described ? value["description"].template get<std::string>() : values_of(value)) +
             " |\n";
  }
  return table;
}

TEST(ProblemFileSchema, TablesOfTheManualAreTheSchema) {
  const std::string text = read_file(source_dir() / "docs/problem-file.schema.json");
  for (const char* name : {"keys", "parameters", "solver", "csv", "residuals"})
    expect_table("docs/problem-files.md", std::string(name) + " in problem-file.schema.json",
                 key_table(text, name, name != std::string("solver")));
}

TEST(ProblemFiles, SamplesConverge) {
  for (const char* name : {"curve_fit", "decay", "triangle"}) {
    const std::string path =
        (source_dir() / "samples/data" / (std::string(name) + ".json")).string();
    const auto file = read_problem_file(path);
    EXPECT_EQ(solve(file->problem, file->options).termination, Termination::CONVERGENCE) << name;
  }
}

}  // namespace
}  // namespace topograd::test
