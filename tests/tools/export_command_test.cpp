// Problems as static files: what is written, what is refused, and the package's own tests in Node.
#include "../../api/export_web.hpp"
#include "../../ir/error.hpp"
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

/// The error of an export of the problem; empty if there is none.
std::string error_of(const Problem& problem, const WebExportOptions& options = {}) {
  const TemporaryDir folder;
  try {
    export_web(problem, options, folder.path() / "out");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
    return error.what();
  }
  return {};
}

/// A problem with one unknown that is pulled to 1.
struct Pulled {
  std::vector<double> numbers = {0.0};
  Problem problem;
  Parameters x = problem.add_parameters(numbers, 1, "x");
  Pulled() { problem.add_residual(x[0] - 1.0, {.label = "pull"}); }
};

TEST(ExportWeb, WritesTheProblemAndThePackage) {
  Pulled pulled;
  const TemporaryDir folder;
  const WebExport done = export_web(pulled.problem, {.name = "pulled"}, folder.path() / "a" / "b");
  std::uint64_t bytes = 0;
  for (const std::string& name : done.files)
    bytes += std::filesystem::file_size(folder.path() / "a" / "b" / name);
  EXPECT_EQ(bytes, done.bytes);
  for (const char* name :
       {"problem.bin", "kernels.js", "topograd.js", "topograd.d.ts", "package.json", "README.md"})
    EXPECT_NE(std::ranges::find(done.files, name), done.files.end()) << name;
  // The module as it stands in the source tree.
  EXPECT_EQ(read_file(folder.path() / "a" / "b" / "topograd.js"),
            read_file(source_dir() / "web/topograd.js"));
  EXPECT_EQ(std::ranges::find(done.files, "index.html"), done.files.end());
  const WebExport page = export_web(pulled.problem, {.page = true}, folder.path() / "page");
  EXPECT_EQ(page.files.size(), done.files.size() + 3);
  EXPECT_EQ(read_file(folder.path() / "page/index.html"),
            read_file(source_dir() / "web/page/index.html"));
}

TEST(ExportWeb, NamesWhatItCannotExport) {
  Pulled energy;
  energy.problem.add_energy(cosh(energy.x[0]));
  EXPECT_EQ(error_of(energy.problem),
            "export web: energies have no residuals, and the module's method is "
            "Levenberg-Marquardt");
  Pulled constrained;
  constrained.problem.add_equality(constrained.x[0] - 2.0);
  EXPECT_EQ(error_of(constrained.problem),
            "export web: constraints are not part of the module's method");
  Pulled branches;
  const Value x = branches.x[0];
  branches.problem.add_residual(x < 0.5 ? x : 2.0 * x, {.label = "bent"});
  EXPECT_EQ(error_of(branches.problem),
            "export web: residual \"bent\" branches on a Value with `if`; a page cannot trace it "
            "again: write the branch with select()");
  Pulled method;
  EXPECT_EQ(error_of(method.problem, {.solver = {.method = Method::lbfgs}}),
            "export web: expected the method levenberg_marquardt or gauss_newton, got lbfgs");
  EXPECT_EQ(error_of(method.problem, {.solver = {.use_nonmonotonic_steps = true}}),
            "export web: expected the default of scale_free, jacobi_scaling, "
            "use_nonmonotonic_steps and domain");
  EXPECT_EQ(error_of(method.problem), "");
}

TEST(ExportWeb, RefusesFoldersThatCannotBeMade) {
  Pulled pulled;
  const TemporaryDir folder;
  const std::filesystem::path file = folder.path() / "file";
  std::ofstream(file) << "text";
  try {
    export_web(pulled.problem, {}, file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::File);
    EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
  }
}

TEST(ExportCommand, SaysWhatIsWrong) {
  const TemporaryDir folder;
  const std::string out = " --out '" + (folder.path() / "out").string() + "'";
  const CommandResult multi = topograd("export web multi --icosphere 1" + out);
  EXPECT_EQ(multi.status, 2);
  EXPECT_EQ(multi.err,
            "topograd: export web: energies have no residuals, and the module's method is "
            "Levenberg-Marquardt\n");
  EXPECT_EQ(topograd("export web springs --width 4").status, 2);
  EXPECT_EQ(topograd("export web nowhere" + out).status, 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
  const CommandResult springs = topograd("export web springs --width 4" + out);
  EXPECT_EQ(springs.status, 0);
  EXPECT_TRUE(springs.is_silent()) << springs.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "out/problem.bin"));
}

// The package's tests solve what the command exports, and compare with its own solves.
TEST(ExportCommand, PackageTestsPassInNode) {
  if (std::system("node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' "
                  "> /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no Node 20 or newer";
  const TemporaryDir folder;
  const std::string log = folder.path() / "log";
  const std::string line = "cd '" + (source_dir() / "web").string() + "' && TOPOGRAD='" +
                           (program_dir() / "topograd").string() + "' TOPOGRAD_SOURCE_DIR='" +
                           source_dir().string() + "' node --test test/ >'" + log + "' 2>&1";
  EXPECT_EQ(std::system(line.c_str()), 0);
  const std::string text = read_file(log);
  EXPECT_NE(text.find("# fail 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("# pass 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace topograd::test
