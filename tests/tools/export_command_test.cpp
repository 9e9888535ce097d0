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
  Pulled constrained;
  constrained.problem.add_equality(constrained.x[0] - 2.0);
  EXPECT_EQ(error_of(constrained.problem),
            "export web: constraints are not part of the module's methods");
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
            "use_nonmonotonic_steps, line_search and domain");
  EXPECT_EQ(error_of(method.problem), "");
}

TEST(ExportWeb, WritesEnergies) {
  Pulled energy;
  energy.problem.add_energy(cosh(energy.x[0]), {.label = "chain"});
  const TemporaryDir folder;
  const auto kernels = [&](Method method) {
    const std::string out = folder.path() / std::string(name(method));
    export_web(energy.problem, {.solver = {.method = method}}, out);
    return read_file(out + "/kernels.js");
  };
  for (const Method method : {Method::automatic, Method::newton}) {
    const std::string text = kernels(method);
    EXPECT_NE(text.find("export function gradient0(p, d, u, out)"), std::string::npos) << text;
    const bool second = text.find("export function hessian1(p, d, u, out)") != std::string::npos;
    EXPECT_TRUE(second) << text;
    // Rows are those of the residual alone.
    EXPECT_NE(text.find("rows0("), std::string::npos);
    EXPECT_EQ(text.find("rows1("), std::string::npos);
  }
  EXPECT_EQ(kernels(Method::lbfgs).find("hessian"), std::string::npos);
}

TEST(ExportWeb, NamesWhatItCannotExportOfEnergies) {
  const auto with_energy = [](Pulled& one) { one.problem.add_energy(cosh(one.x[0])); };
  Pulled method;
  with_energy(method);
  EXPECT_EQ(error_of(method.problem, {.solver = {.method = Method::levenberg_marquardt}}),
            "export web: the problem has energies; expected the method newton or lbfgs, got "
            "levenberg_marquardt");
  EXPECT_EQ(error_of(method.problem, {.solver = {.method = Method::adam}}),
            "export web: the problem has energies; expected the method newton or lbfgs, got adam");
  EXPECT_EQ(error_of(method.problem, {.solver = {.line_search = {.max_evaluations = 3}}}),
            "export web: expected the default of scale_free, jacobi_scaling, "
            "use_nonmonotonic_steps, line_search and domain");
  Pulled branches;
  const Value x = branches.x[0];
  branches.problem.add_energy(x < 0.5 ? x : 2.0 * x, {.label = "bent"});
  EXPECT_EQ(error_of(branches.problem),
            "export web: energy \"bent\" branches on a Value with `if`; a page cannot trace it "
            "again: write the branch with select()");
  std::vector<double> numbers = {1.0, 0.0};
  Problem curved;
  const Parameters point = curved.add_parameters(numbers, 2, "point");
  curved.add_energy(point.vec2(0).x + 2.0 * point.vec2(0).y);
  curved.set_manifold(point, 0, Manifold::sphere(2));
  EXPECT_EQ(error_of(curved), "");
  EXPECT_EQ(error_of(curved, {.solver = {.method = Method::newton}}),
            "export web: newton knows no manifolds; expected lbfgs");
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
  const CommandResult multi = topograd("export web multi --icosphere 1 --method lm" + out);
  EXPECT_EQ(multi.status, 2);
  EXPECT_EQ(multi.err,
            "topograd: export web: the problem has energies; expected the method newton or lbfgs, "
            "got levenberg_marquardt\n");
  EXPECT_EQ(topograd("export web springs --method bfgs --width 4" + out).status, 2);
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
