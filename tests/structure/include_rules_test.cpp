// Include arrows between folders: the tree obeys the table, and the check can fail.
#include "include_rules.hpp"

#include <gtest/gtest.h>

#include "sources.hpp"

namespace topograd::test {
namespace {

TEST(IncludeDirection, TreeObeysTheTable) {
  const std::vector<SourceFile> files = cpp_sources();
  ASSERT_GT(files.size(), 10u);
  for (const SourceFile& file : files) {
    for (const std::string& violation : include_violations(file.path, file.text)) {
      ADD_FAILURE() << violation;
    }
  }
}

struct Row {
  const char* path;
  const char* text;
  const char* expected;  // part of the one violation, or nullptr where there is none
};

TEST(IncludeDirection, RowsOfGoodAndBadSnippets) {
  const Row rows[] = {
      {"ir/a.hpp", "#include <topograd/ir/b.hpp>\n", nullptr},
      {"ir/a.hpp", "#include <topograd/autodiff/b.hpp>\n", "ir may not include autodiff"},
      {"autodiff/a.cpp", "#include <topograd/frontend/b.hpp>\n", "autodiff may not include front"},
      {"frontend/a.cpp", "#include <topograd/codegen/b.hpp>\n", "frontend may not include codegen"},
      {"codegen/a.cpp", "  #  include  <topograd/runtime/b.hpp>\n", "codegen may not include run"},
      {"runtime/cpu/a.cpp", "#include <topograd/frontend/b.hpp>\n", "runtime may not include fro"},
      {"solver/a.cpp", "#include <topograd/ir/graph.hpp>\n", nullptr},        // through frontend
      {"solver/a.cpp", "#include <topograd/codegen/kernel.hpp>\n", nullptr},  // through runtime
      {"solver/a.cpp", "#include <topograd/topograd.hpp>\n", "solver may not include api"},
      {"tools/a.cpp", "#include <topograd/topograd.hpp>\n#include \"b.hpp\"\n", nullptr},
      {"ir/a.cpp", "#include <topograd/nowhere/b.hpp>\n", "there is no folder nowhere"},
      {"ir/a.cpp", "#include \"topograd/ir/b.hpp\"\n", "spell it <topograd/ir/b.hpp>"},
      {"ir/a.cpp", "#include \"b.hpp\"\n", "are spelled <topograd/...>"},
      {"solver/a.cpp", "#include <OpenMesh/Core/IO/MeshIO.hh>\n", "solver may not include Open"},
      {"codegen/a.cpp", "#include <vulkan/vulkan.h>\n", "codegen may not include vulkan"},
      {"ops/a.cpp", "#include <tbb/parallel_for.h>\n", "ops may not include tbb/parallel_for"},
      {"runtime/a.cpp", "#include <tbb/task_arena.h>\n", "runtime may not include tbb/task_ar"},
      {"tests/ir/a.cpp", "#include <vulkan/vulkan.h>\n#include \"support/paths.hpp\"\n", nullptr},
      {"codegen/a.cpp", "auto s = R\"(\n#include \"math.glsl\"\n)\";\n", nullptr},
      {"codegen/a.cpp", "auto s = R\"x()\")x\";\n#include \"b.hpp\"\n", "are spelled <topograd"},
      {"elsewhere/a.cpp", "", "not a folder of the table"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.path) + ": " + row.text);
    const std::vector<std::string> found = include_violations(row.path, row.text);
    ASSERT_EQ(found.size(), row.expected == nullptr ? 0u : 1u);
    if (row.expected != nullptr) {
      EXPECT_NE(found[0].find(row.expected), std::string::npos) << found[0];
    }
  }
}

}  // namespace
}  // namespace topograd::test
