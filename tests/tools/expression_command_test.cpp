// dump --expr, grad and problem files: output and errors.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace topograd::test {
namespace {

const std::string kDistance =
    "--expr 'sqrt((x0-x1)^2 + (y0-y1)^2) - L' --params x0,x1,y0,y1 --data L";

TEST(ExpressionCommand, DumpsEveryFormat) {
  const struct {
    const char* options;
    const char* contains;
  } rows[] = {
      {"--emit glsl", "double y0 = x[c"},
      {"--emit glsl", "double l = data_columns[e];"},
      {"--emit glsl --kernel jtjp --accumulate gather_store", "expression_jtjp_sum"},
      {"--emit glsl --kernel jvp", "double dx0 = "},
      {"--emit ir --kernel residual", "%10 = sqrt %9"},
      {"--emit dot --kernel residual", "digraph \"expression_residual\""},
      {"--emit c --kernel jacobian",
       "void expression_jacobian(const double* p, const double* d, "
       "const double* u, double* out) {"},
      {"--emit c --kernel jtjp", "const double* t, double* out) {"},
#ifdef TOPOGRAD_WITH_VULKAN
      {"--emit spirv --kernel cost", "OpFSub"},
      {"--emit hlsl --precision f32", "RWByteAddressBuffer"},
      {"--emit msl --precision f32", "#include <metal_stdlib>"},
      {"--emit essl --precision f32", "#version 310 es"},
#endif
  };
  for (const auto& row : rows) {
    const CommandResult result = topograd("dump " + kDistance + " " + row.options);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find(row.contains), std::string::npos) << row.options << "\n"
                                                                << result.out;
  }
}

TEST(ExpressionCommand, KernelsOfProblemsAsC) {
  const CommandResult result = topograd("dump springs --width 4 --emit c --kernel gradient");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("void spring_gradient("), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("void anchor_gradient("), std::string::npos);
}

TEST(ExpressionCommand, GradPrintsFormulasAndNumbers) {
  const CommandResult result = topograd("grad " + kDistance + " --at 0,3,0,4,1");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, R"(f = sqrt((x0 - x1)^2 + (y0 - y1)^2) - L

t1 = x0 - x1
t2 = y0 - y1
t3 = sqrt(t1^2 + t2^2)
t4 = select(0 == t3, 0, 0.5 / t3)
df/dx0 = 2 * t1 * t4
df/dx1 = -2 * t1 * t4
df/dy0 = 2 * t2 * t4
df/dy1 = -2 * t2 * t4

at x0 = 0, x1 = 3, y0 = 0, y1 = 4, L = 1
f = 4
df/dx0 = -0.6000000000000001
df/dx1 = 0.6000000000000001
df/dy0 = -0.8
df/dy1 = 0.8
)");
  const CommandResult computed = topograd("grad " + kDistance + " --as-computed");
  EXPECT_NE(computed.out.find("t4 = select(t3 == 0, 0, 0.5 / t3) * 2\n"), std::string::npos)
      << computed.out;
  const CommandResult outside = topograd("grad --expr 'log(a)' --params a --at=-1");
  EXPECT_EQ(outside.out, "f = log(a)\n\ndf/da = 1 / a\n\nat a = -1\nf = nan\ndf/da = -1\n");
  const CommandResult two = topograd("grad --expr 'a*b; exp(a)' --params a,b --at 1,2 --json -");
  EXPECT_EQ(two.status, 0) << two.err;
  const nlohmann::json report = nlohmann::json::parse(two.out);
  EXPECT_EQ(report["values"]["f1"], 2.0);
  EXPECT_EQ(report["values"]["df1/da"], 2.0);
  EXPECT_EQ(report["values"]["df1/db"], 1.0);
  EXPECT_EQ(report["values"]["df2/db"], 0.0);
  EXPECT_DOUBLE_EQ(report["values"]["df2/da"], 2.718281828459045);
}

TEST(ExpressionCommand, RefusesInOneLine) {
  const struct {
    const char* arguments;
    const char* error;
  } rows[] = {
      {"dump", "dump: expected a problem or --expr, got neither"},
      {"dump springs --expr 'x' --params x",
       "dump: expected a problem or --expr, got both: springs and --expr"},
      {"dump springs --params x",
       "dump: --params, --data and --uniforms belong to --expr, got the problem springs"},
      {"dump --expr x --params x --width 4",
       "dump: --mesh, --width and --shuffle belong to a problem, got --expr"},
      {"dump --expr x --params x --list", "dump: --list belongs to a problem, got --expr"},
      {"dump --expr L --data L", "dump: expected at least one parameter, got none"},
      {"dump --expr 'sqrt(x +)' --params x",
       "expression: line 1, column 9: expected a number, a name or '(', got ')'"},
      {"dump --expr 'x + z' --params x",
       "expression: line 1, column 5: expected one of the names x, got 'z'"},
      {"dump --expr x --params x,x", "names: \"x\" is there twice"},
      {"dump --expr x --params x --emit c --precision f32",
       "dump: --emit c is double precision, got --precision f32"},
      {"dump --expr x --params x --emit metal",
       "dump: expected --emit ir, dot, glsl, spirv, hlsl, msl, essl, wgsl, c or js, got \"metal\""},
      {"grad --expr x", "grad: expected --params with at least one name"},
      {"grad --params x", "--expr is required"},
      {"grad --expr x+L --params x --data L --at 1",
       "grad: expected --at with 2 numbers (parameters, data, uniforms), got 1"},
  };
  for (const auto& row : rows) {
    const CommandResult result = topograd(row.arguments);
    EXPECT_EQ(result.status, 2) << row.arguments;
    EXPECT_EQ(result.out, "") << row.arguments;
    EXPECT_EQ(result.err, std::string("topograd: ") + row.error + "\n");
  }
}

TEST(ExpressionCommand, SolvesProblemFiles) {
  const std::string file = "'" + (source_dir() / "samples/data/curve_fit.json").string() + "'";
  const CommandResult result =
      topograd("solve " + file + " --backend cpu --quiet --json - --max-iterations 40");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["termination"], "CONVERGENCE");
  EXPECT_NEAR(report["parameters"]["m"][0].get<double>(), 0.3,
              0.02);  // origin of the points
  EXPECT_NEAR(report["parameters"]["c"][0].get<double>(), 0.1, 0.08);
  EXPECT_EQ(report["residuals"], 21);
  EXPECT_EQ(topograd("solve " + file + " --backend cpu --quiet --json - --max-iterations 0").status,
            0);
  const CommandResult list = topograd("dump " + file + " --list");
  EXPECT_NE(list.out.find("small slope"), std::string::npos) << list.out;
}

TEST(ExpressionCommand, MalformedProblemFilesAreOneLine) {
  const struct {
    const char* text;
    const char* error;
  } rows[] = {
      {"{\"parameters\": [\n}",
       "FILE:2:1: syntax error while parsing value - unexpected '}'; "
       "expected '[', '{', or a literal"},
      {"{\"parameters\": [{\"name\": \"v\", \"values\": [1]}],\n"
       "\"residuals\": [{\"expressions\": [\"v +\"], \"parameters\": [\"v\"]}]}",
       "FILE:2:32: /residuals/0/expressions/0: expression: line 1, column 4: expected a number, a "
       "name or '(', got the end of the text"},
  };
  for (const auto& row : rows) {
    const TemporaryDir folder;
    const std::string path = folder.path() / "problem.json";
    std::ofstream(path) << row.text;
    const CommandResult result = topograd("solve '" + path + "'");
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "topograd: " + path + std::string(row.error).substr(4) + "\n");
  }
  EXPECT_EQ(topograd("solve /nowhere/p.json").err,
            "topograd: /nowhere/p.json: cannot be read: No such file or directory\n");
}

}  // namespace
}  // namespace topograd::test
