// The form of source files: the tree keeps the rules, and the check can fail.
#include "file_rules.hpp"

#include <gtest/gtest.h>

#include "sources.hpp"

namespace topograd::test {
namespace {

TEST(FileForm, TreeKeepsTheRules) {
  for (const SourceFile& file : cpp_sources()) {
    for (const std::string& violation : form_violations(file.path, file.text)) {
      ADD_FAILURE() << violation;
    }
  }
}

struct Row {
  const char* path;
  std::string text;
  const char* expected;  // part of the one violation, or nullptr if there is none
};

TEST(FileForm, RowsOfGoodAndBadSnippets) {
  const std::string first = "// What is in it.\n";
  const Row rows[] = {
      {"ir/a.cpp", first, nullptr},
      {"ir/a.cpp", "", "first line"},
      {"ir/a.cpp", "#include <vector>\n", "first line"},
      {"ir/a.cpp", "// a.cpp\n", "first line"},
      {"ir/a.hpp", first + "#pragma once\n", nullptr},
      {"ir/a.hpp", first + "#ifndef A_HPP\n", "#pragma once"},
      {"ir/a.cpp",
       first + "// TO"
               "DO: later\n",
       "contains TO"
       "DO"},
      {"ir/a.cpp",
       first + "int x;  // FIX"
               "ME\n",
       "contains FIX"
       "ME"},
      {"ir/a.cpp",
       first + "mkdtemp(\"a-XX"
               "XXXX\");\n",
       nullptr},
      {"ir/a.cpp", first + "  static std::map<int, int> known;\n", "exit() destroys"},
      {"ir/a.cpp", first + "  static const std::vector<int> all = {1};\n", "exit() destroys"},
      {"ir/a.cpp", first + "  static const auto& all = *new std::vector<int>{1};\n", nullptr},
      {"ir/a.cpp", first + "  static std::vector<int> list(int count);\n", nullptr},
      {"tests/a.cpp", first + "  static std::map<int, int> known;\n", nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.path) + ": " + row.text.substr(0, 80));
    const std::vector<std::string> found = form_violations(row.path, row.text);
    ASSERT_EQ(found.size(), row.expected == nullptr ? 0u : 1u);
    if (row.expected != nullptr) {
      EXPECT_NE(found[0].find(row.expected), std::string::npos) << found[0];
    }
  }
}

}  // namespace
}  // namespace topograd::test
