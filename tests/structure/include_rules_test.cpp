// Includes of the tree: they resolve, obey the tables and make no circle; and the checks can fail.
#include "include_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "sources.hpp"

namespace topograd::test {
namespace {

TEST(IncludeDirection, TreeObeysTheTables) {
  const std::vector<SourceFile> files = cpp_sources();
  ASSERT_GT(files.size(), 10u);
  for (const std::string& violation : include_violations(files)) ADD_FAILURE() << violation;
}

TEST(IncludeDirection, TreeHasNoCircles) {
  for (const std::string& circle : include_circles(cpp_sources())) ADD_FAILURE() << circle;
}

TEST(IncludeDirection, TableNamesFoldersOfTheTree) {
  for (const std::string& folder : missing_folders(cpp_sources())) ADD_FAILURE() << folder;
}

std::vector<std::string> public_headers() {
  std::ifstream file(TOPOGRAD_PUBLIC_HEADERS);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

TEST(PublicHeaders, IncludePublicHeadersAlone) {
  const std::vector<std::string> headers = public_headers();
  ASSERT_GT(headers.size(), 50u);
  for (const std::string& violation : public_violations(cpp_sources(), headers))
    ADD_FAILURE() << violation;
}

TEST(PublicHeaders, RowsOfGoodAndBadSnippets) {
  const std::vector<SourceFile> tree = {{"ir/a.hpp", "#include \"b.hpp\"\n"},
                                        {"ir/b.hpp", ""},
                                        {"ir/c.cpp", "#include \"b.hpp\"\n"},
                                        {"samples/s.cpp", "#include <topograd/ir/b.hpp>\n"}};
  EXPECT_EQ(public_violations(tree, {"ir/a.hpp", "ir/b.hpp"}), std::vector<std::string>());
  EXPECT_EQ(
      public_violations(tree, {"ir/a.hpp", "ir/d.hpp"}),
      (std::vector<std::string>{"ir/d.hpp: there is no such public header",
                                "ir/a.hpp includes ir/b.hpp, which is not a public header",
                                "samples/s.cpp includes ir/b.hpp, which is not a public header"}));
}

TEST(PublicHeaders, TheManualNamesNoOthers) {
  const std::vector<std::string> headers = public_headers();
  const std::regex name("<topograd/([a-z0-9_/]+[.]hpp)>");
  std::size_t names = 0;
  for (const auto& [path, text] : manual_pages()) {
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it, ++names) {
      const std::string header = (*it)[1];
      const bool front = header.find('/') == std::string::npos;
      EXPECT_TRUE(std::ranges::count(headers, front ? "api/" + header : header))
          << path << " names " << header;
    }
  }
  EXPECT_GT(names, 20u);
}

struct Row {
  const char* path;
  const char* text;
  const char* expected;  // part of the one violation, or nullptr if there is none
};

/// One file among other, empty ones.
std::vector<SourceFile> among_others(const Row& row) {
  std::vector<SourceFile> tree = {{row.path, row.text}};
  for (const char* path :
       {"ir/b.hpp", "autodiff/b.hpp", "frontend/b.hpp", "frontend/value/b.hpp",
        "frontend/problem/b.hpp", "codegen/b.hpp", "runtime/b.hpp", "solver/b.hpp", "ops/b.hpp",
        "api/topograd.hpp", "tools/draw/b.hpp", "tests/support/b.hpp"}) {
    tree.push_back({path, ""});
  }
  return tree;
}

TEST(IncludeDirection, RowsOfGoodAndBadSnippets) {
  const Row rows[] = {
      // Paths that resolve, and users' names of them.
      {"ir/a.hpp", "#include \"b.hpp\"\n", nullptr},
      {"ir/a.hpp", "#include \"../ir/b.hpp\"\n", nullptr},
      {"ir/a.hpp", "#include \"c.hpp\"\n", "there is no c.hpp beside this file"},
      {"ir/a.cpp", "#include \"ir/b.hpp\"\n", "there is no ir/b.hpp beside"},
      {"ir/a.cpp", "#include <topograd/ir/b.hpp>\n", "includes are quoted paths"},
      {"bench/a.cpp", "#include <topograd/topograd.hpp>\n", "includes are quoted paths"},
      {"tests/ir/a.cpp", "#include <topograd/ir/b.hpp>\n", "includes are quoted paths"},
      {"samples/a.cpp", "#include <topograd/topograd.hpp>\n", nullptr},
      {"samples/a.cpp", "#include <topograd/ops/b.hpp>\n", nullptr},
      {"samples/a.cpp", "#include <topograd/ops/c.hpp>\n", "there is no ops/c.hpp"},
      {"samples/a.cpp", "#include \"draw/b.hpp\"\n", nullptr},
      {"samples/a.cpp", "#include \"draw/c.hpp\"\n", "there is no draw/c.hpp"},
      {"tests/install/consumer/a.cpp", "#include <topograd/topograd.hpp>\n", nullptr},
      {"tests/compile/programs/a.cpp", "#include <topograd/all.hpp>\n", "there is no api/all.hpp"},
      {"tests/ir/a.cpp", "#include \"made.inc\"\n#include \"ceres/ceres.h\"\n", nullptr},
      {"api/a.cpp", "#include \"ceres/ceres.h\"\n", "there is no ceres/ceres.h"},
      // Arrows between top folders.
      {"ir/a.hpp", "#include \"../autodiff/b.hpp\"\n", "ir may not include autodiff"},
      {"autodiff/a.cpp", "#include \"../frontend/b.hpp\"\n", "autodiff may not include frontend"},
      {"frontend/a.cpp", "#include \"../codegen/b.hpp\"\n", "frontend may not include codegen"},
      {"codegen/a.cpp", "  #  include  \"../runtime/b.hpp\"\n", "codegen may not include runtime"},
      {"solver/a.cpp", "#include \"../ir/b.hpp\"\n", nullptr},       // through frontend
      {"solver/a.cpp", "#include \"../codegen/b.hpp\"\n", nullptr},  // through runtime
      {"solver/a.cpp", "#include \"../api/topograd.hpp\"\n", "solver may not include api"},
      {"tests/ir/a.cpp", "#include \"../../ops/b.hpp\"\n#include \"../support/b.hpp\"\n", nullptr},
      {"elsewhere/a.cpp", "", "not a folder of the table"},
      // Arrows between subfolders.
      {"frontend/problem/a.cpp", "#include \"../value/b.hpp\"\n", nullptr},  // through frontend
      {"frontend/value/a.cpp", "#include \"../problem/b.hpp\"\n",
       "frontend/value may not include frontend/problem"},
      {"frontend/a.cpp", "#include \"problem/b.hpp\"\n",
       "frontend may not include frontend/problem"},
      {"frontend/elsewhere/a.cpp", "", "frontend/elsewhere: no row in the table of subfolders"},
      {"tests/elsewhere/a.cpp", "#include \"../support/b.hpp\"\n", nullptr},
      // Libraries of others.
      {"solver/a.cpp", "#include <OpenMesh/Core/IO/MeshIO.hh>\n", "solver may not include Open"},
      {"codegen/a.cpp", "#include <vulkan/vulkan.h>\n", "codegen may not include vulkan"},
      {"ops/a.cpp", "#include <tbb/parallel_for.h>\n", "ops may not include tbb/parallel_for"},
      {"runtime/a.cpp", "#include <tbb/task_arena.h>\n", "runtime may not include tbb/task_ar"},
      {"tests/ir/a.cpp", "#include <vulkan/vulkan.h>\n", nullptr},
      // Text of other languages.
      {"codegen/a.cpp", "auto s = R\"(\n#include \"math.glsl\"\n)\";\n", nullptr},
      {"codegen/a.cpp", "auto s = R\"x()\")x\";\n#include \"c.hpp\"\n", "there is no c.hpp"},
  };
  const Row nothing = {"ir/a.hpp", "", nullptr};
  const std::vector<std::string> usual = include_violations(among_others(nothing));
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.path) + ": " + row.text);
    std::vector<std::string> found = include_violations(among_others(row));
    std::erase_if(found, [&](const std::string& s) {
      return std::find(usual.begin(), usual.end(), s) != usual.end();
    });
    ASSERT_EQ(found.size(), row.expected == nullptr ? 0u : 1u) << (found.empty() ? "" : found[0]);
    if (row.expected != nullptr) {
      EXPECT_NE(found[0].find(row.expected), std::string::npos) << found[0];
    }
  }
}

struct CircleRow {
  std::vector<SourceFile> tree;
  std::vector<std::string> expected;  // all messages
};

TEST(IncludeDirection, CirclesOfSnippets) {
  const std::string b = "#include \"b.hpp\"\n", c = "#include \"c.hpp\"\n";
  const CircleRow rows[] = {
      {{{"ir/a.hpp", b}, {"ir/b.hpp", c}, {"ir/c.hpp", ""}}, {}},
      {{{"ir/a.hpp", b}, {"ir/b.hpp", c}, {"ir/c.hpp", "#include \"a.hpp\"\n"}},
       {"circle of files ir/a.hpp, ir/b.hpp, ir/c.hpp:\n  ir/a.hpp includes ir/b.hpp"
        "\n  ir/b.hpp includes ir/c.hpp\n  ir/c.hpp includes ir/a.hpp"}},
      // Names that lead to a circle, or away from it, are not part of it.
      {{{"ir/a.cpp", b},
        {"ir/b.hpp", c},
        {"ir/c.hpp", b + "#include \"d.hpp\"\n"},
        {"ir/d.hpp", ""}},
       {"circle of files ir/b.hpp, ir/c.hpp:\n  ir/b.hpp includes ir/c.hpp"
        "\n  ir/c.hpp includes ir/b.hpp"}},
      // Folders, at different depths, without a circle of files.
      {{{"ir/a.cpp", "#include \"x/b.hpp\"\n"},
        {"ir/c.hpp", ""},
        {"ir/x/b.hpp", "#include \"y/d.hpp\"\n"},
        {"ir/x/y/d.hpp", "#include \"../../c.hpp\"\n"}},
       {"circle of folders ir, ir/x, ir/x/y:\n  ir/a.cpp includes ir/x/b.hpp"
        "\n  ir/x/b.hpp includes ir/x/y/d.hpp\n  ir/x/y/d.hpp includes ir/c.hpp"}},
      {{{"tests/a/a.hpp", "#include \"../b/b.hpp\"\n"},
        {"tests/b/b.hpp", "#include \"../a/a.hpp\"\n"}},
       {}},
  };
  for (const CircleRow& row : rows) EXPECT_EQ(include_circles(row.tree), row.expected);
}

}  // namespace
}  // namespace topograd::test
