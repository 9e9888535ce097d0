// The command on Vulkan: arap to the published minimum, springs with every strategy, the doctor.
#include "../support/paths.hpp"
#include "../support/validation.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

namespace topograd::test {
namespace {

class CommandVulkan : public VulkanTest {
 protected:
  static nlohmann::json solve_arap(const std::string& arguments) {
    const TemporaryDir folder;
    const std::string json = folder.path() / "report.json";
    const CommandResult result = topograd("solve arap --quiet --json '" + json + "' " + arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(result.is_silent()) << result.err;
    return read_json(json);
  }
};

TEST_F(CommandVulkan, PageOfASolveWhoseTermsAreAllStored) {
  TG_NEEDS(float64);
  const TemporaryDir folder;
  const std::string file = folder.path() / "wide.json", page = folder.path() / "page.html";
  std::ofstream(file) << R"({"parameters": [
    {"name": "a", "values": [0.1]}, {"name": "b", "values": [0.2]}, {"name": "c", "values": [0.3]},
    {"name": "d", "values": [0.4]}, {"name": "e", "values": [0.5]}, {"name": "f", "values": [0.6]}],
    "data": [{"name": "y", "values": [1, 2, 3]}],
    "residuals": [{"expressions": ["exp(a + b * y) * (c + d) - e * f"],
                   "parameters": ["a", "b", "c", "d", "e", "f"], "data": ["y"]}]})";
  const CommandResult result =
      topograd("solve '" + file + "' --backend vulkan --max-iterations 1 " +
               "--quiet --json - --report '" + page + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string accumulation = nlohmann::json::parse(result.out)["accumulation"];
  EXPECT_NE(accumulation.find(": gather_store in all"), std::string::npos) << accumulation;
  EXPECT_NE(read_file(page).find("#version 450"), std::string::npos);
}

TEST_F(CommandVulkan, WeightZeroLeavesAPointOutWithoutAValue) {
  TG_NEEDS(float64);
  const TemporaryDir folder;
  const std::string file = folder.path() / "log.json";
  std::ofstream(file) << R"json({"parameters": [{"name": "a", "values": [3]},
                                                {"name": "b", "values": [2]}],
    "data": [{"name": "t", "values": [0, 1, 2, 4, 8]},
             {"name": "y", "values": [0, 1, 1.6931471805599454, 2.386294361119891,
                                      3.0794415416798357]}],
    "uniforms": [{"name": "w", "value": 0}],
    "residuals": [{"expressions": ["a + b * log(t) - y"], "parameters": ["a", "b"],
                   "data": ["t", "y"], "weight": [0, 1, 1, 1, 1]},
                  {"expressions": ["a / (b - b)"], "parameters": ["a", "b"], "weight": "w"}]
})json";
  for (const char* options : {"--linear cholesky", "--linear pcg", "--method lbfgs"}) {
    const CommandResult result =
        topograd("solve '" + file + "' --backend vulkan --quiet --json - " + options);
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    EXPECT_EQ(report["termination"], "CONVERGENCE") << report["message"];
    EXPECT_LT(report["final_cost"].get<double>(), 1e-9) << options;
  }
}

TEST_F(CommandVulkan, CertifiedFitsWithEveryKernelOnTheDevice) {
  TG_NEEDS(float64);
  const TemporaryDir folder;
  const std::string json = folder.path() / "report.json", data = source_dir() / "tests/data/nist";
  const CommandResult result =
      topograd("solve nist --data '" + data + "' --backend vulkan --quiet --json '" + json + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = read_json(json);
  EXPECT_EQ(report["backend"], "vulkan");
  EXPECT_EQ(report["kernels_on_cpu"], 0);
  EXPECT_EQ(report["runs"].size(), 4u);
  for (const auto& run : report["runs"]) EXPECT_GE(run["digits"], 6) << run["name"];
}

constexpr double kMinimum = 0.0762447949443;  // Ceres, sparse Cholesky

/// On spot, with the fewest linear iterations: a software device needs minutes for the defaults.
std::string quickly_on_spot() {
  return "--mesh '" + spot() +
         "' --backend vulkan --max-iterations 300 --linear pcg --preconditioner two_level "
         "--forcing eisenstat_walker ";
}

TEST_F(CommandVulkan, ArapReachesThePublishedMinimum) {
  TG_NEEDS(float64);
  const nlohmann::json report = solve_arap(quickly_on_spot() + "--tolerance 1e-10");
  EXPECT_NEAR(report["final_cost"].get<double>(), kMinimum, 1e-6 * kMinimum);
  EXPECT_EQ(report["backend"], "vulkan");
  EXPECT_EQ(report["kernels_on_cpu"], 0);
  EXPECT_GT(report["kernels_on_device"], 0);
  const nlohmann::json cpu =
      solve_arap("--mesh '" + spot() + "' --backend cpu --max-iterations 300 --tolerance 1e-10");
  EXPECT_NEAR(cpu["final_cost"].get<double>(), kMinimum, 1e-6 * kMinimum);
}

TEST_F(CommandVulkan, ArapInF32ComesWithinAPercent) {
  const std::string sphere = "--icosphere 2 --max-iterations 300 ";
  const double least = solve_arap(sphere + "--backend cpu --tolerance 1e-10")["final_cost"];
  const nlohmann::json device = solve_arap(sphere + "--backend vulkan --precision f32");
  EXPECT_NEAR(device["final_cost"].get<double>(), least, 0.01 * least);
  EXPECT_EQ(device["kernels_on_cpu"], 0);
}

TEST_F(CommandVulkan, ArapAgreesWithTheCpuByDefault) {
  TG_NEEDS(float64);
  const struct {
    const char* tolerance;
    double difference;
  } rows[] = {{"", 1e-5}, {"--tolerance 1e-10", 1e-6}};
  for (const auto& row : rows) {
    const std::string arguments =
        std::string("--icosphere 2 --max-iterations 300 ") + row.tolerance;
    const double cpu = solve_arap("--backend cpu " + arguments)["final_cost"];
    const nlohmann::json device = solve_arap("--backend vulkan " + arguments);
    EXPECT_EQ(device["termination"], "CONVERGENCE");
    EXPECT_EQ(device["kernels_on_cpu"], 0);
    EXPECT_NEAR(device["final_cost"].get<double>(), cpu, row.difference * cpu) << row.tolerance;
  }
}

TEST_F(CommandVulkan, SpringsOnEveryStrategy) {
  TG_NEEDS(float64);
  for (const char* precision : {"f64", "f32"}) {
    for (const char* strategy :
         {"gather_store", "gather_recompute", "atomic_float", "atomic_cas"}) {
      const CommandResult result = topograd(
          std::string("bench springs --width 30 --backend vulkan --precision ") + precision +
          " --accumulate " + strategy + " --samples 2 --only gradient,jtjp --no-peers --json -");
      ASSERT_EQ(result.status, 0) << result.err;
      const nlohmann::json report = nlohmann::json::parse(result.out);
      const bool wide = std::string(precision) == "f64";
      EXPECT_NEAR(report["initial_cost"].get<double>(), 27.0082445932, (wide ? 1e-9 : 1e-5) * 27);
      EXPECT_LE(report["gradient_relative_error"], wide ? 1e-10 : 1e-5) << precision << strategy;
      EXPECT_GT(report["gradient_us"], 0);
      EXPECT_GE(report["gradient_wall_us"], report["gradient_us"]);
    }
  }
}

TEST_F(CommandVulkan, GradientsHoldWithOtherVectorWidths) {
  TG_NEEDS(float64);
  for (const char* width : {"128", "512"}) {
    for (const char* precision : {"f64", "f32"}) {
      for (const char* strategy :
           {"gather_store", "gather_recompute", "atomic_float", "atomic_cas"}) {
        const CommandResult result = topograd(
            std::string("bench springs --width 12 --backend vulkan --samples 1 --only gradient "
                        "--no-peers --json - --precision ") +
                precision + " --accumulate " + strategy,
            std::string("LP_NATIVE_VECTOR_WIDTH=") + width);
        ASSERT_EQ(result.status, 0) << result.err;
        EXPECT_LE(nlohmann::json::parse(result.out)["gradient_relative_error"],
                  std::string(precision) == "f64" ? 1e-10 : 1e-5)
            << width << precision << strategy;
      }
    }
  }
}

TEST_F(CommandVulkan, GatherGivesTheSameBitsInTenProcesses) {
  TG_NEEDS(float64);
  const CommandResult result = topograd("check repeat --json -");
  ASSERT_EQ(result.status, 0) << result.err << result.out;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["processes"], 10);
  std::set<std::string> seen, gradients;
  for (const nlohmann::json& row : report["results"]) {
    const std::string place = row["backend"], way = row["accumulation"], order = row["order"];
    seen.insert(place + " " + way + " " + order);
    EXPECT_EQ(row["runs"], 100) << row;
    ASSERT_EQ(row["gradient"].size(), 1u) << row;
    EXPECT_EQ(row["jtjp"].size(), 1u) << row;
    gradients.insert(place + " " + row["gradient"][0].get<std::string>());
  }
  EXPECT_EQ(seen.size(), 2 + 4u);
  EXPECT_GE(gradients.size(), 4u);  // the shuffled mesh is numbered differently
}

TEST_F(CommandVulkan, OrdersAreComparedInPairs) {
  const struct {
    const char* arguments;
    bool reordered;
  } rows[] = {{"springs --width 150 --shuffle 1 --backend vulkan --precision f32", true},
              {"springs --width 150 --backend vulkan --precision f32", false},
              {"springs --width 150 --shuffle 1 --backend cpu", false}};
  for (const auto& row : rows) {
    const CommandResult result =
        topograd(std::string("bench --orders --samples 2 --no-check --json - ") + row.arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json orders = nlohmann::json::parse(result.out)["orders"];
    EXPECT_EQ(orders["reordered"], row.reordered) << row.arguments;
    for (const char* kind : {"residual", "jacobian", "gradient", "jtjp"})
      for (const char* key : {"found_us", "kept_us", "ratio"})
        EXPECT_GT(orders[kind][key], 0) << row.arguments << kind;
  }
}

TEST_F(CommandVulkan, TheOrderThatIsThereCanBeKept) {
  const auto holds_an_order = [](const char* order) {
    const CommandResult result = topograd(
        "bench springs --width 150 --shuffle 1 --backend vulkan --precision f32 --samples 1 --only "
        "cost --no-check --no-peers --json -",
        std::string("TOPOGRAD_ORDER=") + order);
    EXPECT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    for (const nlohmann::json& use : report["memory"])
      if (use["use"] == "order of blocks and instances") return true;
    return false;
  };
  EXPECT_TRUE(holds_an_order("found"));
  EXPECT_FALSE(holds_an_order("kept"));
  const CommandResult wrong =
      topograd("solve springs --width 10 --backend vulkan --precision f32", "TOPOGRAD_ORDER=any");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err, "topograd: TOPOGRAD_ORDER: expected found or kept, got \"any\"\n");
}

TEST_F(CommandVulkan, CompilingDoesNotDependOnTheCount) {
  TG_NEEDS(float64);
  const auto compiled = [](const char* width) {
    const TemporaryDir cache;
    const CommandResult result = topograd(
        std::string("solve springs --linear pcg --max-iterations 1 --backend vulkan --json - "
                    "--width ") +
            width,
        "TOPOGRAD_CACHE_DIR='" + cache.path().string() + "'");
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out)["shaders_compiled"].get<int>();
  };
  const int few = compiled("10");
  EXPECT_GT(few, 0);
  EXPECT_EQ(compiled("183"), few);  // 261 and 99,735 springs
}

TEST_F(CommandVulkan, ACatalogueIsWarmedUpForAnotherProcess) {
  TG_NEEDS(float64);
  const TemporaryDir cache;
  const std::string environment = "TOPOGRAD_CACHE_DIR='" + cache.path().string() + "'";
  const std::string file = (source_dir() / "samples/data/curve_fit.json").string();
  const auto run = [&](const std::string& arguments) {
    const CommandResult result = topograd(arguments + " --backend vulkan --json -", environment);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const std::string catalogue = "warm-up springs '" + file + "' --width 12";
  const nlohmann::json first = run(catalogue);
  ASSERT_EQ(first["problems"].size(), 2u);
  for (const nlohmann::json& problem : first["problems"])
    EXPECT_GT(problem["shaders_compiled"], 0) << problem;
  EXPECT_EQ(run(catalogue)["shaders_compiled"], 0);
  EXPECT_EQ(run("solve springs --width 30")["shaders_compiled"], 0);
  EXPECT_EQ(run("solve '" + file + "'")["shaders_compiled"], 0);
  const CommandResult on_cpu = topograd("warm-up springs --width 12 --backend cpu", environment);
  EXPECT_NE(on_cpu.out.find("springs: nothing to compile on the CPU (asked for)"),
            std::string::npos)
      << on_cpu.out;
}

TEST_F(CommandVulkan, AutomaticTakesANamedDeviceFromTheThresholdOn) {
  TG_NEEDS(float64);
  struct Row {
    const char* environment;
    const char* width;
    const char* backend;
  };
  // 3 W² − 4 W + 5 instances: 801 and 1,125; the threshold is 1,024.
  for (const Row& row :
       {Row{"TOPOGRAD_DEVICE=0", "17", "cpu"}, Row{"TOPOGRAD_DEVICE=0", "20", "vulkan"},
        Row{"TOPOGRAD_DEVICE=0 TOPOGRAD_FALLBACK_THRESHOLD=500", "17", "vulkan"}}) {
    const CommandResult result =
        topograd(std::string("solve springs --deterministic --json - --width ") + row.width,
                 row.environment);  // otherwise the interpreter runs until kernels are compiled
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    EXPECT_EQ(report["backend"], row.backend) << report["why"];
    EXPECT_EQ(report["kernels_on_device"] == 0, std::string(row.backend) == "cpu");
    EXPECT_EQ(report["kernels_on_cpu"] == 0, std::string(row.backend) == "vulkan");
  }
}

TEST_F(CommandVulkan, PlanRecordsAreKeptAndGivenBack) {
  TG_NEEDS(float64);
  const TemporaryDir folder;
  const std::string kept = (folder.path() / "plan.json").string();
  const std::string solve =
      "solve springs --width 12 --max-iterations 2 --backend vulkan --json - ";
  const CommandResult first = topograd(solve + "--plan-out '" + kept + "'");
  ASSERT_EQ(first.status, 0) << first.err;
  const nlohmann::json plan = nlohmann::json::parse(first.out)["plan"];
  ASSERT_GE(plan["batches"].size(), 2u);
  EXPECT_EQ(plan["batches"][0]["chosen_by"], "rule");
  std::ifstream file(kept);
  EXPECT_EQ(nlohmann::json::parse(file), plan);
  const CommandResult second = topograd(solve + "--plan '" + kept + "'");
  ASSERT_EQ(second.status, 0) << second.err;
  for (const nlohmann::json& made : nlohmann::json::parse(second.out)["plan"]["batches"])
    EXPECT_EQ(made["chosen_by"], "given");
  const CommandResult missing = topograd(solve + "--plan /nowhere/plan.json");
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("/nowhere/plan.json: cannot be read"), std::string::npos);
}

TEST_F(CommandVulkan, WhatWasMeasuredIsListed) {
  TG_NEEDS(float64);
  const TemporaryDir cache;
  const std::string there = "TOPOGRAD_CACHE_DIR='" + cache.path().string() + "'";
  const CommandResult run = topograd(
      "bench springs --width 100 --backend vulkan --samples 1 --only cost_gradient --no-peers "
      "--no-check --json -",
      there);
  ASSERT_EQ(run.status, 0) << run.err;
  const CommandResult info = topograd("info --json -", there);
  const nlohmann::json plans = nlohmann::json::parse(info.out)["cache"]["measured_plans"];
  ASSERT_EQ(plans.size(), 1u) << info.out;
  EXPECT_EQ(plans.begin().key(), device_->info().name);
  const std::string choice = plans.begin()->begin()->get<std::string>();
  EXPECT_NE(choice.find("cost_gradient: "), std::string::npos) << choice;
  EXPECT_NE(choice.find("(measured, one sweep "), std::string::npos) << choice;
  const CommandResult same = topograd("dump springs --width 101 --list", there);
  EXPECT_NE(same.out.find("measured:\n" + device_->info().name + ", f64: " + choice + "\n"),
            std::string::npos)
      << same.out;
  const CommandResult smaller = topograd("dump springs --width 10 --list", there);
  EXPECT_EQ(smaller.out.find("measured:"), std::string::npos) << "of another size";
}

TEST_F(CommandVulkan, EachTopologyIsOneShader) {
  TG_NEEDS(float64);
  const TemporaryDir cache;
  const CommandResult result =
      topograd("bench topologies --count 3 --backend vulkan --samples 1 --json -",
               "TOPOGRAD_CACHE_DIR='" + cache.path().string() + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["topologies"], 3);
  EXPECT_GE(report["shaders_compiled"], 3);
  EXPECT_GT(report["spirv_ms"], 0);
  EXPECT_GT(report["pipeline_ms"], 0);
}

TEST_F(CommandVulkan, PoolsReserveLittleMoreThanBenchProblemsUse) {
  const std::string spot = " --mesh " + (source_dir() / "samples/data/spot.obj").string();
  for (const std::string& problem : {std::string("springs --width 100"), "arap" + spot,
                                     "smooth" + spot, std::string("bundle")}) {
    const CommandResult result =
        topograd("bench " + problem +
                 " --backend vulkan --precision f32 --samples 1 --only gradient,step100 "
                 "--no-peers --no-check --json -");
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out);
    EXPECT_GT(report["pool_bytes_in_use"], 1'000'000) << problem;
    EXPECT_GE(report["pool_overhead"], 0) << problem;
    EXPECT_LE(report["pool_overhead"], 0.05) << problem;
  }
}

TEST_F(CommandVulkan, NoSuchDevice) {
  const CommandResult result =
      topograd("solve springs --width 4 --backend vulkan --device 'no such'");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.err.starts_with(
      "topograd: backend vulkan: vulkan: no device \"no such\" found; there is: 0 = \""))
      << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(CommandVulkan, DoctorIsContent) {
  const CommandResult result = topograd("doctor");
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("ok       "), std::string::npos);
  const nlohmann::json report = nlohmann::json::parse(topograd("doctor --json -").out);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["version"], nlohmann::json::parse(topograd("info --json -").out)["version"]);
  EXPECT_FALSE(report["devices"].empty());
  for (const nlohmann::json& check : report["checks"]) {
    EXPECT_NE(check["state"], "missing") << check;
    EXPECT_NE(result.out.find(check["name"].get<std::string>() + ": "), std::string::npos) << check;
  }
}

}  // namespace
}  // namespace topograd::test
