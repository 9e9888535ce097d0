// The command's output: keys of its reports, costs, lists and sources.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

namespace topograd::test {
namespace {

TEST(Command, SolveReportsWhatItDid) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json", mesh = folder.path() / "out.obj";
  const CommandResult result =
      topograd("solve arap --mesh '" + spot() + "' --backend cpu --max-iterations 2 --out '" +
               mesh + "' --json '" + json + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = read_json(json);
  for (const char* key :
       {"initial_cost", "final_cost", "iterations", "termination", "backend", "device", "precision",
        "topologies", "build_s", "plan_s", "compile_ms", "solve_s", "unknowns", "residuals"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  EXPECT_NEAR(report["initial_cost"].get<double>(), 3929.13617924, 1e-8 * 3929);  // Ceres
  EXPECT_EQ(report["iterations"], 2);
  EXPECT_EQ(report["termination"], "NO_CONVERGENCE");
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["unknowns"], 2 * 3 * 2930);
  ASSERT_EQ(report["topologies"].size(), 2u);
  for (const auto& topology : report["topologies"]) {
    EXPECT_EQ(topology["hash"].get<std::string>().size(), 32u);
    EXPECT_EQ(topology["outputs"], 3);
    EXPECT_GT(topology["instances"], 0);
  }
  EXPECT_NE(result.out.find("NO_CONVERGENCE"), std::string::npos);
  EXPECT_TRUE(read_file(mesh).starts_with("v "));
}

TEST(Command, MeshProblemsStartAtTheirPublishedValues) {
  const struct {
    std::string arguments;
    double cost;
  } rows[] = {{"smooth --noise 0.01 --mesh '" + spot() + "'", 6.25798337662},
              {"developable --icosphere 0", 11.5775313825},
              {"developable --icosphere 2", 14.1168382363}};
  for (const auto& row : rows) {
    const TemporaryDir folder;
    const std::string json = folder.path() / "report.json";
    const CommandResult result = topograd("solve " + row.arguments +
                                          " --backend cpu --method lbfgs --max-iterations 0 "
                                          "--json '" +
                                          json + "'");
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NEAR(read_json(json)["initial_cost"].get<double>(), row.cost, 1e-11 * row.cost)
        << row.arguments;
  }
}

TEST(Command, SolvesEnergiesByTheMethodsThatTakeThem) {
  for (const char* method : {"", " --method newton", " --method lbfgs --energy hinge"}) {
    const TemporaryDir folder;
    const std::string json = folder.path() / "report.json", mesh = folder.path() / "out.obj";
    const CommandResult result =
        topograd(std::string("solve developable --icosphere 1 --perturb 1e-3 --backend cpu") +
                 method + " --out '" + mesh + "' --json '" + json + "'");
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = read_json(json);
    EXPECT_EQ(report["method"],
              std::string(method).find("newton") == std::string::npos ? "lbfgs" : "newton");
    EXPECT_EQ(report["energies"], 42);
    EXPECT_EQ(report["residuals"], 0);
    EXPECT_LT(report["final_cost"].get<double>(), report["initial_cost"].get<double>() / 2);
    EXPECT_TRUE(read_file(mesh).starts_with("v "));
  }
}

TEST(Command, BenchTimesWhatAProblemOfEnergiesHas) {
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json";
  const CommandResult result = topograd(
      "bench developable --icosphere 1 --subdivide 1 --perturb 1e-3 --backend cpu --json '" + json +
      "'");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = read_json(json);
  for (const char* key : {"cost_us", "gradient_us", "hvp_us"})
    EXPECT_GT(report[key].get<double>(), 0) << key;
  EXPECT_FALSE(report.contains("jacobian_us"));
  EXPECT_EQ(report["instances"], 162);
  EXPECT_LE(report["gradient_relative_error"].get<double>(), 1e-10);
}

TEST(Command, DumpPrintsSecondDerivatives) {
  for (const char* kernel : {"hvp", "hessian"}) {
    const CommandResult result =
        topograd(std::string("dump developable --icosphere 0 --kernel ") + kernel);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find(std::string("covariance_") + kernel), std::string::npos);
    EXPECT_NE(result.out.find("void main()"), std::string::npos);
  }
}

TEST(Command, BenchReportsTimesAndErrors) {
  struct Row {
    int width;
    double cost;  // Ceres, f64
  };
  for (const Row& row : {Row{10, 2.6161453817}, Row{30, 27.0082445932}, Row{100, 291.938669864}}) {
    for (const char* shuffle : {"", " --shuffle 1"}) {
      const TemporaryDir folder;
      const std::string json = folder.path() / "report.json";
      const CommandResult result = topograd("bench springs --width " + std::to_string(row.width) +
                                            shuffle + " --backend cpu --json '" + json + "'");
      ASSERT_EQ(result.status, 0) << result.err;
      const nlohmann::json report = read_json(json);
      for (const char* key :
           {"instances", "topologies", "build_s", "plan_s", "glsl_ms", "spirv_ms", "pipeline_ms",
            "residual_us", "jacobian_us", "gradient_us", "jtjp_us", "step100_us", "initial_cost",
            "device", "accumulation", "gradient_relative_error", "gradient_wall_us"}) {
        EXPECT_TRUE(report.contains(key)) << key;
      }
      EXPECT_NEAR(report["initial_cost"].get<double>(), row.cost, 1e-9 * row.cost);
      EXPECT_EQ(report["topologies"], 2);
      EXPECT_EQ(report["instances"], 3 * row.width * row.width - 4 * row.width + 1 + 4);
      EXPECT_LE(report["gradient_relative_error"], 1e-12);
    }
  }
}

TEST(Command, TheCpuGivesTheSameBitsOnAnyNumberOfThreads) {
  std::string first;
  for (const char* threads : {"1", "2", "3", "1"}) {
    const CommandResult result = topograd(
        std::string("bench springs --width 40 --backend cpu --json - --threads ") + threads);
    ASSERT_EQ(result.status, 0) << result.err;
    const std::string hash = nlohmann::json::parse(result.out)["gradient_hash"];
    if (first.empty()) first = hash;
    EXPECT_EQ(hash, first) << threads;
  }
}

TEST(Command, DumpListsTopologies) {
  const CommandResult result = topograd("dump springs --width 10 --list");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("261"), std::string::npos) << result.out;  // 2 * 90 + 81 edges
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 4) << result.out;
}

/// The bytes of a topology in `dump --list`, by the names of its columns.
std::map<std::string, int> listed_bytes(const std::string& table, const std::string& name) {
  std::istringstream lines(table);
  std::string line;
  std::vector<std::string> columns, row;
  const auto words = [&] {
    std::istringstream in(line);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  std::getline(lines, line);
  columns = words();
  while (std::getline(lines, line) && row.empty())
    if (line.find("  " + name + " ") != std::string::npos) row = words();
  std::map<std::string, int> bytes;
  for (std::size_t k = 0; k < columns.size() && k < row.size(); ++k)
    if (columns[k] == "general" || columns[k] == "software" || columns[k] == "bytes")
      bytes[columns[k]] = std::stoi(row[k]);
  return bytes;
}

TEST(Command, DumpListsBytesWithAndWithoutColumnsThatNeedNotBeStored) {
  using Bytes = std::map<std::string, int>;
  const CommandResult springs = topograd("dump springs --width 10 --list");
  ASSERT_EQ(springs.status, 0) << springs.err;
  // Indices of six scalars, a length and a row; indices of two blocks.
  EXPECT_EQ(listed_bytes(springs.out, "spring"),
            (Bytes{{"general", 40}, {"software", 24}, {"bytes", 24}}));
  // An index, three numbers of which all anchors share one, three rows.
  EXPECT_EQ(listed_bytes(springs.out, "anchor"),
            (Bytes{{"general", 60}, {"software", 52}, {"bytes", 44}}));
  EXPECT_NE(springs.out.find("software: on a software device"), std::string::npos) << springs.out;
}

TEST(Command, SolveSaysWhichPreconditionerServed) {
  for (const char* asked : {"automatic", "block_jacobi", "two_level"}) {
    const CommandResult result = topograd(
        std::string("solve arap --icosphere 1 --backend cpu --linear pcg --max-iterations 2 "
                    "--json - --preconditioner ") +
        asked);
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    ASSERT_TRUE(report.contains("preconditioner")) << asked;
    const std::string used = report["preconditioner"], note = report["preconditioner_note"];
    EXPECT_TRUE(used == "block_jacobi" || used == "two_level") << used;
    if (std::string(asked) == "block_jacobi") {
      EXPECT_EQ(used, asked);
      EXPECT_EQ(note, "asked for");
    }
    EXPECT_NE(note, "") << asked;
  }
  const CommandResult dense = topograd(
      "solve arap --icosphere 1 --backend cpu --linear cholesky --max-iterations 2 --json -");
  EXPECT_FALSE(nlohmann::json::parse(dense.out).contains("preconditioner"));
  const CommandResult gradients = topograd(
      "solve developable --icosphere 1 --backend cpu --method lbfgs --max-iterations 2 --json -");
  EXPECT_FALSE(nlohmann::json::parse(gradients.out).contains("preconditioner"));
}

TEST(Command, TheInterpretersPlanRecordSaysWhatItsKernelsTake) {
  const CommandResult result = topograd(
      "bench springs --width 10 --backend cpu --samples 1 --no-peers --only "
      "residual,gradient,jtjp,values --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json plan = nlohmann::json::parse(result.out)["plan"];
  EXPECT_EQ(plan["device"].get<std::string>().rfind("interpreter, ", 0), 0u);
  EXPECT_EQ(plan["precision"], "f64");
  std::map<std::string, nlohmann::json> springs;
  for (const nlohmann::json& made : plan["batches"])
    if (made["name"] == "spring") springs[made["pass"]] = made;
  for (const char* pass : {"residual", "gradient", "jtjp", "values"}) {
    ASSERT_TRUE(springs.count(pass)) << pass << " of " << plan.dump(2);
    const nlohmann::json& made = springs[pass];
    EXPECT_EQ(made["instances"], 261) << pass;
    EXPECT_EQ(made["accumulation"], "gather_store") << pass;
    EXPECT_GT(made["bytes"], 0) << pass;
    // Each spring touches two blocks.
    EXPECT_EQ(made["entries"], std::string(pass) == "residual" ? 0 : 522) << pass;
  }
  EXPECT_EQ(springs["residual"]["operations"], 261 * 12);      // as `dump --list` counts them
  EXPECT_EQ(springs["residual"]["bytes"], 261 * (8 + 2 * 4));  // a length, two blocks
  EXPECT_GT(springs["gradient"]["operations"], springs["residual"]["operations"]);
  EXPECT_GE(springs["values"]["operations"], springs["gradient"]["operations"]);
}

TEST(Command, DumpPrintsEveryFormat) {
  struct Row {
    const char* arguments;
    const char* contains;
  };
  for (const Row& row :
       {Row{"--emit ir", "program parameters="}, Row{"--emit dot", "digraph"},
        Row{"--emit glsl", "#version 450"},
        Row{"--emit glsl --accumulate atomic_cas --precision f32", "atomicCompSwap"},
        Row{"--emit glsl --accumulate atomic_float --precision f32", "atomicAdd"},
        Row{"--emit glsl --accumulate gather_store", "terms"},
        Row{"--emit glsl --kernel residual", "#version 450"},
        Row{"--emit glsl --kernel cost", "shared"},
        Row{"--emit glsl --kernel blocks", "#version 450"},
        Row{"--emit glsl --kernel jtjp", "direction"}}) {
    const CommandResult result = topograd(std::string("dump springs --width 4 ") + row.arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find(row.contains), std::string::npos) << row.arguments;
  }
  const CommandResult arap =
      topograd("dump arap --mesh '" + spot() + "' --kernel gradient --emit glsl");
  EXPECT_NE(arap.out.find("tg_sin_f64"), std::string::npos) << arap.err;
}

TEST(Command, DumpTakesOneTopology) {
  const CommandResult all = topograd("dump springs --width 4 --emit ir");
  const CommandResult spring = topograd("dump springs --width 4 --emit ir --topology spring");
  ASSERT_EQ(spring.status, 0) << spring.err;
  EXPECT_NE(all.out.find("# anchor"), std::string::npos) << all.out;
  EXPECT_EQ(spring.out.find("# anchor"), std::string::npos) << spring.out;
  EXPECT_NE(all.out.find(spring.out), std::string::npos) << spring.out;
  // The name follows the hash in the list.
  const std::string list = topograd("dump springs --width 4 --list").out;
  const std::size_t at = list.find("  spring ");
  ASSERT_NE(at, std::string::npos) << list;
  const std::string hash = list.substr(at - 32, 32);
  EXPECT_EQ(topograd("dump springs --width 4 --emit ir --topology " + hash).out, spring.out);
  EXPECT_EQ(topograd("dump springs --width 4 --emit ir --topology " + hash.substr(0, 8)).out,
            spring.out);
  const CommandResult none = topograd("dump springs --width 4 --topology sprong");
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err.find("topograd: dump: expected --topology with a name or a hash of this "
                          "problem, got \"sprong\"; there is: "),
            0u)
      << none.err;
  EXPECT_NE(none.err.find("spring (" + hash + ")"), std::string::npos) << none.err;
}

TEST(Command, DumpWritesAFileAKernel) {
  const TemporaryDir folder;
  const auto read_all = [](const std::filesystem::path& from) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(from))
      files[entry.path().filename().string()] = read_file(entry.path());
    return files;
  };
  const std::string kernels = (folder.path() / "new/kernels/").string();
  for (const std::string format : {"glsl", "ir", "c"}) {
    std::filesystem::remove_all(kernels);
    const CommandResult result = topograd("dump springs --width 4 --kernel residual --emit " +
                                          format + " --out '" + kernels + "'");
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    const auto files = read_all(kernels);
    EXPECT_EQ(files.size(), 2u) << format;  // spring and anchor
    const std::string both =
        topograd("dump springs --width 4 --kernel residual --emit " + format).out;
    for (const auto& [name, text] : files) {
      EXPECT_TRUE(name.ends_with("." + format)) << name;
      EXPECT_TRUE(format == "c" || both.find(text) != std::string::npos) << name;
    }
  }
  const std::filesystem::path there = folder.path() / "there";
  std::filesystem::create_directory(there);
  const CommandResult one =
      topograd("dump --expr 'a*a' --params a --kernel residual --out '" + there.string() + "'");
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(read_all(there).count("expression_residual.glsl"), 1u);
}

#ifdef TOPOGRAD_WITH_VULKAN
TEST(Command, DumpPrintsCompiledForms) {
  struct Row {
    const char* format;
    const char* contains;
  };
  for (const Row& row : {Row{"spirv", "OpEntryPoint GLCompute"}, Row{"hlsl", "numthreads"},
                         Row{"msl", "kernel void"}, Row{"essl", "#version 310 es"}}) {
    const CommandResult result =
        topograd(std::string("dump springs --width 4 --precision f32 --emit ") + row.format);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find(row.contains), std::string::npos) << row.format;
  }
}
#endif

TEST(Command, InfoNamesTheMachine) {
  const CommandResult result = topograd("info --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json info = nlohmann::json::parse(result.out);
  EXPECT_GT(info["cpu_threads"], 0);
  EXPECT_TRUE(info.contains("devices"));
  EXPECT_EQ(topograd("info").status, 0);
}

}  // namespace
}  // namespace topograd::test
