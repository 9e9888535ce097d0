// The manual's tables that are made from headers, and names that its pages must have.
#include <gtest/gtest.h>
#include "../../ir/error.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "../support/manual.hpp"
#include "../support/paths.hpp"
#include "sources.hpp"

namespace topograd::test {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \n") - begin + 1));
}

/// The text between the braces of `struct NAME {` or `enum class NAME {`; empty if missing.
std::string body_of(std::string_view source, const std::string& head) {
  const std::size_t at = source.find(head);
  if (at == source.npos) return {};
  const std::size_t begin = source.find('{', at) + 1;
  std::size_t end = begin;
  for (int depth = 1; end < source.size(); ++end) {
    if (source[end] == '{') ++depth;
    if (source[end] == '}' && --depth == 0) break;
  }
  return std::string(source.substr(begin, end - begin));
}

/// The enumerators of an enum's body, in order.
std::vector<std::string> enumerators(const std::string& body) {
  std::string code;
  for (const std::string_view line : lines_of(body))
    code.append(line.substr(0, line.find("//"))).append(" ");
  std::vector<std::string> names;
  const std::regex name(R"(([A-Za-z]\w*)[^,]*,?)");
  for (std::sregex_iterator it(code.begin(), code.end(), name), end; it != end; ++it)
    names.push_back((*it)[1]);
  return names;
}

/// One field of a struct, from its declaration and comments.
struct FieldText {
  std::string type, name, initial, meaning;
};

void append_words(std::string& text, std::string_view words) {
  if (!text.empty() && !words.empty()) text += ' ';
  text += trimmed(words);
}

/// Parses a declaration. Empty name: not a field.
FieldText field_of(std::string declaration, const std::string& meaning) {
  static const std::regex form(R"(^(.*\S)\s+(\w+)$)");
  if (declaration.ends_with(';')) declaration.pop_back();
  const std::size_t equals = declaration.find('=');
  const std::string head = trimmed(declaration.substr(0, equals));
  std::smatch part;
  if (head.ends_with(')') || head.ends_with("const") || !std::regex_match(head, part, form))
    return {};
  const std::string initial = equals == declaration.npos ? "" : declaration.substr(equals + 1);
  return {part[1], part[2], trimmed(initial), meaning};
}

/// The fields of a struct's body: comments are before them (///) or after them (///<).
std::vector<FieldText> fields(const std::string& body) {
  constexpr std::string_view kBehind = "///<", kBefore = "///";
  std::vector<FieldText> found;
  std::string declaration, meaning;
  for (const std::string_view raw : lines_of(body)) {
    const std::string line = trimmed(raw);
    if (line.starts_with(kBefore) && !line.starts_with(kBehind)) {
      append_words(meaning, std::string_view(line).substr(kBefore.size()));
      continue;
    }
    const std::size_t behind = line.find(kBehind);
    append_words(declaration, std::string_view(line).substr(0, line.find("//")));
    if (behind != line.npos)
      append_words(meaning, std::string_view(line).substr(behind + kBehind.size()));
    if (!declaration.empty() && !declaration.ends_with(';')) continue;
    FieldText field = field_of(declaration, meaning);
    if (!field.name.empty()) found.push_back(std::move(field));
    declaration.clear();
    meaning.clear();
  }
  return found;
}

std::string replaced(const std::string& text, const char* pattern, const char* with) {
  return std::regex_replace(text, std::regex(pattern), with);
}

/// An enum's body in which included tables are replaced by their rows.
std::string with_rows(const std::string& body, const std::string& path,
                      const std::vector<SourceFile>& sources) {
  static const std::regex include(R"_(^ *#include "([^"]+)"$)_"), define(R"(^#define (TG_\w+)\()");
  std::string out, macro;
  for (const std::string_view view : lines_of(body)) {
    const std::string line(view);
    std::smatch found;
    if (std::regex_search(line, found, define)) macro = found[1];
    if (!std::regex_match(line, found, include)) {
      if (line.find('#') == line.npos) out += line + "\n";
      continue;
    }
    const std::filesystem::path table =
        (std::filesystem::path(path).parent_path() / found[1].str()).lexically_normal();
    const auto file = std::ranges::find(sources, table.generic_string(), &SourceFile::path);
    if (file == sources.end()) continue;
    const std::regex row("^" + macro + R"(\((\w+))");
    for (const std::string_view entry : lines_of(file->text)) {
      const std::string text(entry);
      if (std::regex_search(text, found, row)) out += found[1].str() + ",\n";
    }
  }
  return out;
}

/// The names of each enum of the headers, as table text.
using EnumTexts = std::map<std::string, std::string>;

EnumTexts enum_texts(const std::vector<SourceFile>& sources) {
  EnumTexts texts;
  static const std::regex head(R"(enum class (\w+) \{)");
  for (const SourceFile& file : sources) {
    if (!file.path.ends_with(".hpp")) continue;
    for (std::sregex_iterator it(file.text.begin(), file.text.end(), head), end; it != end; ++it) {
      std::string names;
      for (const std::string& name :
           enumerators(with_rows(body_of(file.text, it->str()), file.path, sources)))
        names += (names.empty() ? "`" : ", `") + name + "`";
      texts.emplace((*it)[1], names);
    }
  }
  return texts;
}

/// The values of a type: names of an enum of the library, or a word.
std::string values_of(const std::string& type, const EnumTexts& enums) {
  static const std::regex optional(R"(^std::optional<(.*)>$)");
  std::smatch part;
  if (std::regex_match(type, part, optional)) return values_of(part[1], enums);
  if (type == "bool") return "`false`, `true`";
  if (type == "double") return "number";
  if (type == "std::string") return "text";
  if (type == "int" || type.starts_with("std::uint") || type == "std::size_t") return "integer";
  if (type.starts_with("std::map<std::string, std::uint64_t")) return "integers by name";
  if (const auto found = enums.find(type); found != enums.end()) return found->second;
  return "`" + replaced(type, R"(std::(?:shared_ptr<const |vector<)(.*)>)", "$1") + "`";
}

std::string initial_text(const FieldText& field) {
  std::string text = replaced(field.initial, R"((\w+::)+|\{\}|<double>)", "");
  text = replaced(text, R"(uint64_t\{(\d+)\})", "$1");
  return text.empty() ? "" : "`" + text + "`";
}

std::string struct_table(const std::string& body, const EnumTexts& enums) {
  std::string table = "| field | values | default | meaning |\n|---|---|---|---|\n";
  for (const FieldText& field : fields(body)) {
    table += "| `" + field.name + "` | " + values_of(field.type, enums) + " | " +
             initial_text(field) + " | " + replaced(field.meaning, R"(\|)", "\\|") + " |\n";
  }
  return table;
}

TEST(DocTables, FieldsAreThoseOfTheStruct) {
  const std::string body = body_of(
      "enum class E { one, two };\nstruct S {\n  E e = E::one;  ///< first\n\n  /// Long\n"
      "  /// text.\n  std::optional<int> n;\n  double x =\n      1e-5;  ///< |x|\n"
      "  // A group.\n  bool done(int k) const;\n  int limit = 50;  ///< >= 0\n};\n",
      "struct S {");
  const EnumTexts enums = enum_texts(
      {{"f/a.hpp", "enum class E {\n  one,\n#define TG_E(name) name,\n#include \"e.def\"\n};\n"},
       {"f/e.def", "// TG_E(name)\n/// The second.\nTG_E(two)\n"}});
  EXPECT_EQ(struct_table(body, enums),
            "| field | values | default | meaning |\n|---|---|---|---|\n"
            "| `e` | `one`, `two` | `one` | first |\n| `n` | integer |  | Long text. |\n"
            "| `x` | number | `1e-5` | \\|x\\| |\n| `limit` | integer | `50` | >= 0 |\n");
}

/// Every `<!-- table of STRUCT in FILE.hpp -->` of the manual.
TEST(DocTables, TablesOfStructsAreTheHeaders) {
  const std::vector<SourceFile> sources = cpp_sources();
  const EnumTexts everywhere = enum_texts(sources);
  const std::regex marker(R"(<!-- table of (\w+) in ([\w/.]+\.hpp) -->)");
  int tables = 0;
  for (const Page& page : manual_pages()) {
    for (std::sregex_iterator it(page.text.begin(), page.text.end(), marker), end; it != end;
         ++it) {
      const std::string name = (*it)[1], header = (*it)[2];
      // If two enums share a name, takes that of the header's own folder.
      std::vector<SourceFile> nearby = sources;
      std::erase_if(nearby, [top = header.substr(0, header.find('/') + 1)](const SourceFile& file) {
        return !file.path.starts_with(top);
      });
      EnumTexts enums = enum_texts(nearby);
      enums.insert(everywhere.begin(), everywhere.end());
      const std::string body = body_of(read_file(source_dir() / header), "struct " + name + " {");
      EXPECT_FALSE(fields(body).empty()) << name << " in " << header;
      for (const FieldText& field : fields(body))
        EXPECT_FALSE(field.meaning.empty()) << name << "::" << field.name << " says nothing";
      expect_table(page.path, name + " in " + header, struct_table(body, enums));
      ++tables;
    }
  }
  EXPECT_GE(tables, 2);
}

/// The rows of the manual's table, made from the enum's lines `Name,  ///< meaning` and from
/// name().
std::string error_table(const std::string& body) {
  std::string table = "| code | name | meaning |\n|---|---|---|\n";
  int code = 0;
  static const std::regex form(R"(^\s*(\w+),\s*///< (.*)$)");
  for (const std::string_view line : lines_of(body)) {
    std::smatch part;
    const std::string text(line);
    if (!std::regex_match(text, part, form)) continue;
    table += "| `" + part[1].str() + "` | `" + std::string(name(static_cast<ErrorCode>(code++))) +
             "` | " + part[2].str() + " |\n";
  }
  return table;
}

TEST(DocTables, ErrorsAreTheEnum) {
  const std::string header = read_file(source_dir() / "ir/error.hpp");
  expect_table("docs/errors.md", "errors", error_table(body_of(header, "enum class ErrorCode {")));
}

struct Variable {
  const char *name, *meaning;
};
constexpr Variable kVariables[] = {
#define TG_VARIABLE(name, meaning) {#name, meaning},
#include "../../ir/machine/environment.def"
};

TEST(DocTables, VariablesAreTheList) {
  std::string table = "| variable | meaning |\n|---|---|\n";
  for (const Variable& one : kVariables)
    table += "| `" + std::string(one.name) + "` | " + one.meaning + " |\n";
  expect_table("docs/reference/environment.md", "environment variables", table);
}

/// Every variable that the code reads is in the list, and vice versa.
TEST(DocTables, VariablesAreThoseThatAreRead) {
  const std::regex literal(R"re("((?:TOPOGRAD_[A-Z0-9_]+|TOPOGRAD_HYBRID|GLOG_v))")re");
  std::set<std::string> read;
  for (const SourceFile& file : cpp_sources()) {
    const bool counts = !file.path.starts_with("tests/") && !file.path.starts_with("bench/");
    if (!counts || file.path == "ir/machine/environment.def") continue;
    for (const std::string_view line : lines_of(file.text)) {
      const std::string text(line);
      for (std::sregex_iterator it(text.begin(), text.end(), literal), end; it != end; ++it)
        read.insert((*it)[1]);
    }
  }
  std::set<std::string> listed;
  for (const Variable& one : kVariables) listed.insert(one.name);
  for (const std::string& name : read) {
    const bool option = name.starts_with("TOPOGRAD_HYBRID_");
    EXPECT_TRUE(option || listed.contains(name)) << name << " is not in ir/machine/environment.def";
  }
  for (const std::string& name : listed) EXPECT_TRUE(read.contains(name)) << name;
}

/// Names of the code that a page must have, in backticks.
TEST(DocTables, PagesHaveTheNamesOfTheCode) {
  const struct {
    const char *page, *source, *name;
  } rows[] = {
      {"docs/hybrid.md", "runtime/hybrid/metrics.cpp", R"re("(topograd_[a-z_]+)")re"},
      {"docs/hybrid.md", "runtime/hybrid/routing/decision.hpp", R"(^  (\w+), +///<)"},
      {"docs/modelling.md", "frontend/loss.hpp", R"(^  static Loss (\w+)\()"},
      {"docs/requirements.md", "runtime/device/driver/features.cpp", R"re(^ +\{"([a-z0-9_]+)",)re"},
  };
  for (const auto& row : rows) {
    const std::string page = read_file(source_dir() / row.page);
    const std::string source = read_file(source_dir() / row.source);
    const std::regex name(row.name);
    int names = 0;
    for (const std::string_view line : lines_of(source)) {
      const std::string text(line);
      std::smatch part;
      if (!std::regex_search(text, part, name)) continue;
      ++names;
      const std::regex written("`(Loss::)?" + part[1].str() + R"((\(|`|\{))");
      EXPECT_TRUE(std::regex_search(page, written))
          << row.page << ": nothing about " << part[1].str() << " of " << row.source;
    }
    EXPECT_GE(names, 5) << row.source;
  }
}

}  // namespace
}  // namespace topograd::test
