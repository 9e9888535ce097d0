// check, dump --values, domain policies, cross-checks and bench topologies as users run them.
#include "run_command.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

TEST(CheckCommand, ReportsAsJson) {
  const CommandResult ops = topograd("check ops --backend cpu --precision f64 --count 20 --json -");
  ASSERT_EQ(ops.status, 0) << ops.err;
  const nlohmann::json found = nlohmann::json::parse(ops.out);
  EXPECT_EQ(found["check"], "ops");
  EXPECT_EQ(found["broken"], false);
  const nlohmann::json& first = found["results"][0];
  EXPECT_EQ(first["op"], "add");
  EXPECT_EQ(first["backend"], "cpu");
  EXPECT_EQ(first["bound_ulp"], 0);
  EXPECT_EQ(first["value"]["ulp"], 0);
  const CommandResult random =
      topograd("check random --backend cpu --precision f32 --count 100 --seed 3 --json -");
  ASSERT_EQ(random.status, 0) << random.out << random.err;
  const nlohmann::json programs = nlohmann::json::parse(random.out);
  EXPECT_EQ(programs["programs"], 100);
  EXPECT_EQ(programs["failures"], 0);
  EXPECT_EQ(programs["seed"], 3);
  EXPECT_GT(programs["nodes"], 5000);
}

// The stored bits are those of every machine.
TEST(CheckCommand, PortableBitsAreAsStored) {
  const CommandResult result = topograd("check repeat --portable --json -");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["broken"], false);
  EXPECT_GE(report["places"].size(), 2u);
  EXPECT_GE(report["results"].size(), 12u);
  EXPECT_TRUE(report["failures"].empty()) << report["failures"];
  for (const nlohmann::json& row : report["results"])
    for (const char* kind : {"rows", "sums", "solve"}) EXPECT_EQ(row[kind].size(), 1u) << row;
  // Where there is a device, its kernels have computed them.
  for (const auto& [name, row] : report["results"].items()) {
    for (const auto& [place, kernels] : row["kernels"].items()) {
      if (!place.starts_with("interpreter")) {
        EXPECT_GT(kernels["device"], 0) << name << place;
      }
      // A driver whose atan has other bits leaves the kernels with it to the CPU.
      const double most = name == "functions" ? 0.05 * kernels["device"].get<double>() : 0;
      if (!place.starts_with("interpreter") && name != "springs mixed") {
        EXPECT_LE(kernels["cpu"], most) << name << place;
      }
    }
  }
}

TEST(CheckCommand, PortableBitsOfOneProblem) {
  const CommandResult one = topograd("check repeat --portable --problem misra1a --json -");
  ASSERT_EQ(one.status, 0) << one.out << one.err;
  const nlohmann::json report = nlohmann::json::parse(one.out);
  ASSERT_EQ(report["results"].size(), 1u);
  EXPECT_EQ(report["results"]["misra1a"]["as_stored"], true);
  const CommandResult none = topograd("check repeat --portable --problem misra");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("the name \"misra\"; there are springs pcg, "), std::string::npos)
      << none.err;
}

TEST(CheckCommand, OptionsOfPortableBitsAreNotIgnored) {
  for (const char* option : {"--problem misra1a", "--all"}) {
    const CommandResult refused = topograd(std::string("check repeat ") + option);
    const std::string name(std::string_view(option).substr(0, std::string_view(option).find(" ")));
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.err,
              "topograd: check repeat: expected --portable beside " + name + ", got none\n");
  }
}

TEST(CheckCommand, PortableBitsRefuseWhatCannotHaveThem) {
  const struct {
    const char* options;
    const char* text;
  } rows[] = {
      {"--backend vulkan --precision f32", "devices may round f32 otherwise; use precision f64"},
      {"--backend vulkan --components separate", "components on a device have another order; use"},
      {"--factor device", "has other bits; use factor host"},
      {"--method adam", "uses functions of the machine; use lbfgs"}};
  for (const auto& row : rows) {
    const CommandResult result =
        topograd(std::string("solve springs --width 3 --bits portable ") + row.options);
    EXPECT_EQ(result.status, 2) << row.options;
    EXPECT_NE(result.err.find("bits portable: "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(row.text), std::string::npos) << result.err;
  }
  EXPECT_NE(topograd("solve springs --width 3 --bits same").err.find("native, portable"),
            std::string::npos);
#ifdef __x86_64__  // other processors have nothing to choose
  const CommandResult limited =
      topograd("solve springs --width 3 --backend cpu --json -", "TOPOGRAD_INSTRUCTIONS=sse");
  EXPECT_EQ(limited.status, 2);
  EXPECT_NE(limited.err.find("expected baseline, avx2 or avx512, got"), std::string::npos);
#endif
}

TEST(CheckCommand, PairsOfOps) {
  const CommandResult result =
      topograd("check ops --pairs --backend cpu --every 200 --triples 3 --json -");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["check"], "pairs");
  EXPECT_EQ(report["broken"], false);
  EXPECT_GT(report["pairs"], 10);
  EXPECT_EQ(report["triples"], 3);
  EXPECT_GT(report["compared"], 5000);
  EXPECT_EQ(report["wrong"], nlohmann::json::array());
  EXPECT_EQ(topograd("check ops --pairs --backend cpu --every 0").status, 2);
}

TEST(CheckCommand, GradientsOfEveryNamedProblem) {
  const CommandResult result = topograd("check gradients --backend cpu --json -");
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  std::string names;
  for (const nlohmann::json& r : report["results"]) {
    EXPECT_LE(r["relative_difference"], r["bound"]) << r;
    if (r["precision"] == "f64") names += r["problem"].get<std::string>() + " ";
  }
  for (const char* name : {"arap", "springs"}) EXPECT_NE(names.find(name), std::string::npos);
}

TEST(CheckCommand, ValuesOfAnInstance) {
  const CommandResult springs =
      topograd("dump springs --width 4 --values --instance 3 --backend cpu --kernel residual");
  EXPECT_EQ(springs.status, 0) << springs.err;
  EXPECT_NE(springs.out.find("residual of residual \"spring\" #3 (topology "), std::string::npos);
  EXPECT_NE(springs.out.find("no difference beyond the ops' bounds"), std::string::npos);
  const CommandResult expression = topograd(
      "dump --expr 'sqrt(x)-L' --params x --data L --values --at 4,1 --kernel residual "
      "--backend cpu --precision f64");
  EXPECT_EQ(expression.out, R"(f64                               evaluator                 cpu
%0 = parameter 0                  4                         4
%1 = data 0                       1                         1
%2 = sqrt %0                      2                         2
%3 = sub %2, %1                   1                         1
no difference beyond the ops' bounds
)");
}

TEST(CheckCommand, RefusesInOneLine) {
  const struct {
    const char* arguments;
    const char* error;
  } rows[] = {
      {"dump --expr x --params x --values --kernel residual",
       "dump: expected --at with 1 numbers (parameters, data, uniforms), got 0"},
      {"dump springs --width 4 --values --instance 1000 --backend cpu --kernel residual",
       "dump: no topology has an instance 1000 with a residual"},
      {"solve springs --width 4 --domain sloppy",
       "domain: expected one of mathematical, guarded, strict, got \"sloppy\""},
      {"solve springs --width 4 --cross-check some",
       "expected --cross-check all or a number of instances, got \"some\""},
  };
  for (const auto& row : rows) {
    const CommandResult result = topograd(row.arguments);
    EXPECT_EQ(result.status, 2) << row.arguments;
    EXPECT_EQ(result.err, std::string("topograd: ") + row.error + "\n");
  }
}

TEST(CheckCommand, SolveWithDomainAndCrossCheck) {
  const CommandResult result = topograd(
      "solve springs --width 5 --backend cpu --domain strict --cross-check 4 --json - "
      "--max-iterations 3");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_GT(report["cross_check"]["compared"], 50);
  EXPECT_EQ(report["cross_check"]["differences"], 0);
}

TEST(CheckCommand, BenchTopologiesCountsThem) {
  const CommandResult result = topograd("bench topologies --count 30 --backend cpu --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["count"], 30);
  EXPECT_EQ(report["topologies"], 30);
  for (const char* key : {"trace_ms", "canonicalise_ms", "glsl_ms", "spirv_ms", "pipeline_ms"})
    EXPECT_GE(report[key], 0) << key;
}

}  // namespace
}  // namespace topograd::test
