// Problems as static files: what is written, what is refused, and the package's own tests in Node.
#include "../../api/export_web.hpp"
#include "../../api/web_files.hpp"
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {
namespace {

class ExportWeb : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::web_files().empty())
      GTEST_SKIP() << "a build without tsc (Debian: node-typescript)";
  }
};
using ExportCommand = ExportWeb;

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

TEST_F(ExportWeb, WritesTheProblemAndThePackage) {
  Pulled pulled;
  const TemporaryDir folder;
  const WebExport done = export_web(pulled.problem, {.name = "pulled"}, folder.path() / "a" / "b");
  std::uint64_t bytes = 0;
  for (const std::string& name : done.files)
    bytes += std::filesystem::file_size(folder.path() / "a" / "b" / name);
  EXPECT_EQ(bytes, done.bytes);
  for (const char* name : {"problem.bin", "kernels.js", "topograd.js", "topograd.d.ts",
                           "package.json", "README.md", "test/package.test.js"})
    EXPECT_NE(std::ranges::find(done.files, name), done.files.end()) << name;
  const std::string module = read_file(folder.path() / "a" / "b" / "topograd.js");
  EXPECT_NE(module.find("export async function load("), std::string::npos) << module;
  EXPECT_EQ(std::ranges::find(done.files, "index.html"), done.files.end());
  const WebExport page = export_web(pulled.problem, {.page = true}, folder.path() / "page");
  EXPECT_EQ(page.files.size(), done.files.size() + 3);
  EXPECT_EQ(read_file(folder.path() / "page/index.html"),
            read_file(source_dir() / "web/page/index.html"));
}

TEST_F(ExportWeb, WritesKernelsOfSinglePrecision) {
  Pulled pulled;
  pulled.problem.add_residual(2.0 * pulled.x[0], {.loss = huber(1.0), .label = "robust"});
  const TemporaryDir folder;
  const WebExport done = export_web(pulled.problem, {.f32 = true}, folder.path());
  for (const char* name : {"kernels.wgsl", "float32.js", "steps.wgsl"})
    EXPECT_NE(std::ranges::find(done.files, name), done.files.end()) << name;
  const std::string text = read_file(folder.path() / "kernels.wgsl");
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = text.find("// kernel ", at)) != std::string::npos; ++at)
    names.push_back(text.substr(at + 10, text.find('\n', at) - at - 10));
  // The cost of rows without a loss is half their square.
  EXPECT_EQ(names, (std::vector<std::string>{"rows0", "rows1", "cost1"}));
  EXPECT_NE(text.find("@compute @workgroup_size(64, 1, 1)"), std::string::npos);
  Pulled energy;
  energy.problem.add_energy(cosh(energy.x[0]));
  EXPECT_EQ(error_of(energy.problem, {.f32 = true}),
            "export web: energies are minimised in JavaScript, not in the precision f32");
}

TEST_F(ExportWeb, NamesWhatItCannotExport) {
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
  EXPECT_EQ(error_of(method.problem), "");
}

TEST_F(ExportWeb, NamesOptionsThatTheModuleDoesNotHave) {
  const std::pair<const char*, SolverOptions> rows[] = {
      {"scale_free", {.scale_free = false}},
      {"jacobi_scaling", {.jacobi_scaling = false}},
      {"rescale_steps", {.rescale_steps = false}},
      {"use_nonmonotonic_steps", {.use_nonmonotonic_steps = true}},
      {"line_search", {.line_search = {.max_evaluations = 3}}},
      {"domain", {.domain = DomainPolicy::guarded}},
      {"absolute_gradient_tolerance", {.absolute_gradient_tolerance = 1}},
      {"max_consecutive_invalid_steps", {.max_consecutive_invalid_steps = 9}},
      {"eta", {.eta = 0.1}},
      {"preconditioner", {.preconditioner = Preconditioner::two_level}},
      {"components", {.components = Components::separate}},
      {"component_covariances", {.component_covariances = true}}};
  const Pulled pulled;
  for (const auto& [field, options] : rows) {
    EXPECT_EQ(error_of(pulled.problem, {.solver = options}),
              std::string("export web: the module does not have the option ") + field +
                  "; expected its default");
  }
}

TEST_F(ExportWeb, RefusesWhatASolveRefuses) {
  const auto error = [](double lower, double upper, SolverOptions options) -> std::string {
    Pulled pulled;
    pulled.problem.set_bounds(pulled.x, 0, 0, lower, upper);
    const TemporaryDir folder;
    try {
      export_web(pulled.problem, {.solver = std::move(options)}, folder.path() / "out");
    } catch (const Error& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::InvalidArgument);
      return refused.what();
    }
    return {};
  };
  EXPECT_EQ(error(-1, 1, {}), "");
  EXPECT_EQ(error(0, 0, {}),
            "export web: parameter \"x\" has infeasible bounds [0, 0]; expected lower < upper "
            "(hold it with set_constant)");
  EXPECT_EQ(error(1, 2, {}), "export web: parameter \"x\" starts at 0, outside its bounds [1, 2]");
  EXPECT_EQ(error(-1, 1, {.max_trust_region_radius = 0}),
            "options: max_trust_region_radius must be >= min_trust_region_radius, got 0");
}

TEST_F(ExportWeb, RefusesStartsThatAreNotFinite) {
  const auto error = [](double start, bool energy, bool fixed) -> std::string {
    std::vector<double> numbers = {start, 1.0};
    Problem problem;
    const Parameters x = problem.add_parameters(numbers, 1, "x");
    if (energy)
      problem.add_energy(sqrt(x[0]), {.label = "root"});
    else
      problem.add_residual(sqrt(x[0]) - x[1], {.label = "root"});
    if (fixed) problem.set_constant(x, 0);
    const TemporaryDir folder;
    try {
      export_web(problem, {}, folder.path() / "out");
    } catch (const Error& refused) {
      EXPECT_EQ(refused.code(), ErrorCode::NonFinite);
      EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
      return refused.what();
    }
    return {};
  };
  EXPECT_EQ(error(1, false, false), "");
  EXPECT_EQ(error(0, false, true), "");  // only the derivative by a fixed unknown is infinite
  const std::string value = error(-1, false, false), slope = error(0, false, false);
  EXPECT_TRUE(value.starts_with("export web: residual \"root\" #0 (topology ")) << value;
  EXPECT_NE(value.find("sqrt(-1) is "), std::string::npos) << value;
  EXPECT_TRUE(slope.starts_with("export web: the derivative of residual \"root\" #0")) << slope;
  EXPECT_NE(error(-1, true, false).find("energy \"root\" #0"), std::string::npos);
  EXPECT_EQ(error(std::nan(""), false, false),
            "export web: parameter \"x\", block 0 is nan at the start; expected a finite number");
}

TEST_F(ExportWeb, WritesEnergies) {
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

TEST_F(ExportWeb, NamesWhatItCannotExportOfEnergies) {
  const auto with_energy = [](Pulled& one) { one.problem.add_energy(cosh(one.x[0])); };
  Pulled method;
  with_energy(method);
  EXPECT_EQ(error_of(method.problem, {.solver = {.method = Method::levenberg_marquardt}}),
            "export web: the problem has energies; expected the method newton or lbfgs, got "
            "levenberg_marquardt");
  EXPECT_EQ(error_of(method.problem, {.solver = {.method = Method::adam}}),
            "export web: the problem has energies; expected the method newton or lbfgs, got adam");
  EXPECT_EQ(error_of(method.problem, {.solver = {.line_search = {.max_evaluations = 3}}}),
            "export web: the module does not have the option line_search; expected its default");
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

bool has_node() {
  return std::system(
             "node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' "
             "> /dev/null 2>&1") == 0;
}

/// Solves an exported problem in Node with tight tolerances: its final cost, then the numbers of
/// its array x.
std::vector<double> solved_in_node(const Problem& problem, Method method) {
  const TemporaryDir folder;
  export_web(problem, {.solver = {.method = method}}, folder.path() / "out");
  const std::string script = folder.path() / "solve.mjs", out = folder.path() / "numbers";
  std::ofstream(script) << "import { writeFileSync } from 'node:fs';\n"
                           "import { load } from './out/topograd.js';\n"
                           "const p = await load(new URL('./out/', import.meta.url));\n"
                           "const s = await p.minimize({ functionTolerance: 1e-15, maxIterations: "
                           "500, parameterTolerance: 1e-12 });\n"
                           "writeFileSync(process.argv[2], [s.finalCost, ...p.parameters('x')]"
                           ".join('\\n'));\n";
  EXPECT_EQ(std::system(("node '" + script + "' '" + out + "'").c_str()), 0);
  std::ifstream file(out);
  return {std::istream_iterator<double>(file), {}};
}

/// Compares with the library's minimum.
void expect_same_minimum(Problem& problem, std::span<const double> x, Method method) {
  const std::vector<double> got = solved_in_node(problem, method);
  const Summary summary = solve(problem, {.backend = Backend::cpu,
                                          .method = method,
                                          .linear_solver = LinearSolver::cholesky,
                                          .max_iterations = 500,
                                          .function_tolerance = 1e-15,
                                          .parameter_tolerance = 1e-12});
  ASSERT_EQ(got.size(), x.size() + 1);
  EXPECT_LT(summary.final_cost, summary.initial_cost);
  EXPECT_NEAR(got[0], summary.final_cost, 1e-9 * std::abs(summary.final_cost));
  for (std::size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(got[k + 1], x[k], 1e-5) << k;
}

TEST_F(ExportWeb, EnergiesBesideLossesBoundsUniformsAndManifolds) {
  if (!has_node()) GTEST_SKIP() << "no Node 20 or newer";
  for (const Method method : {Method::newton, Method::lbfgs}) {
    SCOPED_TRACE(name(method));
    std::vector<double> numbers = {0.5, -0.5, 1.5, 2.0};
    Problem problem;
    const Parameters x = problem.add_parameters(numbers, 2, "x");
    const Uniform weight = problem.add_uniform(0.75);
    problem.add_energy(weight * cosh(x.vec2(0).x - 2.0 * x.vec2(0).y), {.label = "chain"});
    problem.add_energy(exp(x.vec2(1).x) - x.vec2(1).x * x.vec2(0).y + square(x.vec2(1).y));
    for (const double at : {1.0, 1.2, 9.0})
      problem.add_residual(x.vec2(0).x - at, {.loss = huber(0.5), .label = "outliers"});
    problem.set_bounds(x, 1, 1, 0.25, 3.0);
    problem.set_constant(x, 1, 0b01);
    expect_same_minimum(problem, numbers, method);
    EXPECT_EQ(numbers[3], 0.25);
  }
  std::vector<double> numbers = {1.0, 0.0, 0.0};
  Problem curved;
  const Parameters x = curved.add_parameters(numbers, 3, "x");
  const Vec3 at = x.vec3(0);
  curved.add_energy(exp(at.x) + at.y * at.z);
  curved.add_residual(at.z - 2.0 * at.y + 1.0);
  curved.set_manifold(x, 0, Manifold::sphere(3));
  expect_same_minimum(curved, numbers, Method::lbfgs);
}

TEST_F(ExportWeb, RefusesFoldersThatCannotBeMade) {
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

TEST_F(ExportCommand, SaysWhatIsWrong) {
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
TEST_F(ExportCommand, PackageTestsPassInNode) {
  if (!has_node()) GTEST_SKIP() << "no Node 20 or newer";
  const TemporaryDir folder;
  const std::string log = folder.path() / "log", module = folder.path() / "module";
  ASSERT_EQ(topograd("export web springs --width 3 --out '" + module + "'").status, 0);
  const std::string line = "cd '" + (source_dir() / "web").string() + "' && TOPOGRAD='" +
                           (program_dir() / "topograd").string() + "' TOPOGRAD_SOURCE_DIR='" +
                           source_dir().string() + "' TOPOGRAD_WEB='" + module +
                           "' node --test test/ >'" + log + "' 2>&1";
  EXPECT_EQ(std::system(line.c_str()), 0);
  const std::string text = read_file(log);
  EXPECT_NE(text.find("# fail 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("# pass 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace topograd::test
