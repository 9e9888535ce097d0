// topograd bench as users run it: shares of the copy bandwidth, memory, tracing, peers.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

nlohmann::json bench(const std::string& arguments) {
  const CommandResult result = topograd("bench " + arguments + " --json -");
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

TEST(BenchCommand, EveryTimeHasItsShareOfTheCopyBandwidth) {
  const nlohmann::json report =
      bench("springs --width 40 --backend cpu --samples 3 --no-peers --threads 1");
  const double rate = report["copy_gb_s"];
  EXPECT_GT(rate, 0.1);
  int times = 0;
  for (const char* name : {"residual", "cost", "jacobian", "gradient", "cost_gradient", "values",
                           "jtjp", "step100", "evaluation", "fresh_evaluation"}) {
    const std::string key(name);
    const double us = report[key + "_us"], bytes = report[key + "_bytes"];
    EXPECT_GT(us, 0) << key;
    const double share = bytes / (us * 1e-6) / (rate * 1e9);
    EXPECT_NEAR(report[key + "_share_of_copy"].get<double>(), share, 1e-9 * share) << key;
    EXPECT_EQ(report["share_of_copy"][key], report[key + "_share_of_copy"]);
    ++times;
  }
  EXPECT_EQ(report["share_of_copy"].size(), times);
  // 3 W² − 4 W + 1 springs with two indices and a length; four anchors in one plane; x; one number
  // per row.
  const int springs = 3 * 1600 - 4 * 40 + 1;
  EXPECT_EQ(report["residual_bytes"],
            springs * (2 * 4 + 8) + 4 * (4 + 2 * 8) + 8 * (3 * 1600 + springs + 12));
  EXPECT_TRUE(report["peers"].empty());
}

TEST(BenchCommand, EveryBenchmarkHasItsKeys) {
  const std::string mesh = " --icosphere 1 --perturb 1e-3";
  const struct {
    std::string arguments;
    std::vector<std::string> shares;  ///< keys of times as shares of the copy bandwidth
    bool has_peer;                    ///< if Ceres was found
  } rows[] = {{"springs --width 12", {"residual", "gradient", "jtjp", "step100"}, true},
              {"springs --width 12 --shuffle 1", {"residual", "gradient", "jtjp", "step100"}, true},
              {"arap" + mesh, {"residual", "gradient", "jtjp"}, true},
              {"smooth" + mesh, {"residual", "gradient", "jtjp"}, true},
              {"developable" + mesh, {"cost", "gradient", "hvp"}, true},
              {"topologies --count 2", {"trace", "residual"}, false},
              {"trace --count 2000", {}, true}};
  const bool ceres = std::filesystem::exists(program_dir() / "topograd_peer_ceres.so");
  for (const auto& row : rows) {
    const nlohmann::json report = bench(row.arguments + " --backend cpu --samples 1");
    ASSERT_FALSE(report.is_null()) << row.arguments;
    EXPECT_GT(report["copy_gb_s"], 0.1) << row.arguments;
    for (const std::string& time : row.shares) {
      EXPECT_TRUE(report.contains(time + "_us") || report.contains(time + "_ms")) << time;
      EXPECT_GT(report[time + "_share_of_copy"], 0) << row.arguments << " " << time;
      EXPECT_EQ(report["share_of_copy"][time], report[time + "_share_of_copy"]) << row.arguments;
    }
    if (row.shares.empty()) {
      EXPECT_GT(report["share_of_copy"], 0) << row.arguments;
    }
    ASSERT_EQ(report["peers"].size(), ceres && row.has_peer ? 1u : 0u) << row.arguments;
    for (const nlohmann::json& peer : report["peers"]) {
      EXPECT_EQ(peer["name"], "Ceres");
      EXPECT_FALSE(peer["version"].get<std::string>().empty());
      const char* time = row.shares.empty() ? "residuals_per_s" : "residual_us";
      EXPECT_GT(peer[time], 0) << row.arguments;
      if (!row.shares.empty()) {
        EXPECT_GT(peer["copy_gb_s"], 0.1) << row.arguments;
        const double cost = report["initial_cost"];
        EXPECT_NEAR(peer["initial_cost"], cost, 1e-12 * cost) << row.arguments;
        EXPECT_GT(peer["share_of_copy"]["residual"], 0) << row.arguments;
      }
    }
  }
}

TEST(BenchCommand, OnlyTheTimesThatAreAskedFor) {
  const nlohmann::json report = bench(
      "developable --icosphere 1 --edges --perturb 1e-3 --backend cpu --samples 2 --only "
      "gradient,evaluation");
  EXPECT_EQ(report["instances"], 42 + 120);  // energies, and an edge each
  EXPECT_EQ(report["residuals"], 120);
  EXPECT_TRUE(report.contains("gradient_us") && report.contains("evaluation_us"));
  EXPECT_FALSE(report.contains("cost_us") || report.contains("fresh_evaluation_us"));
  const CommandResult wrong = topograd("bench springs --only gradients");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("expected --only to name some of residual"), std::string::npos)
      << wrong.err;
}

TEST(BenchCommand, MemoryIsExplained) {
  const nlohmann::json report =
      bench("springs --width 200 --backend cpu --samples 1 --no-peers --only jacobian,gradient");
  double host = 0;
  for (const nlohmann::json& use : report["memory"]) host += use["host"].get<double>();
  EXPECT_EQ(report["host_bytes_explained"], host);
  EXPECT_GE(host, 118'405 * 40.0);  // the problem's columns alone
#if defined(__GLIBC__) && !defined(TOPOGRAD_SANITIZED)
  EXPECT_NEAR(report["host_bytes"].get<double>(), host, 0.1 * host);
#endif
}

TEST(BenchCommand, TracesSpringsOfAnyNumber) {
  const nlohmann::json report = bench("trace --count 50000 --samples 2 --threads 2");
  EXPECT_EQ(report["residuals"], 50000);
  EXPECT_GE(report["nodes_per_residual"], 17);  // two times three unknowns, ten ops, a length
  EXPECT_LE(report["nodes_per_residual"], 24);
  EXPECT_GT(report["residuals_per_s"], 0);
  EXPECT_LE(report["bytes_per_residual"], 16);
  EXPECT_EQ(report["column_bytes_per_residual"], 6 * 4 + 8);
  EXPECT_LE(report["slow_matches"], 1);
  EXPECT_GT(report["map_residuals_per_s"], 0);
  EXPECT_GT(report["share_of_copy"], 0);
  EXPECT_EQ(bench("trace --width 30 --samples 1")["residuals"], 3 * 900 - 4 * 30 + 1 + 4);
  EXPECT_EQ(topograd("bench trace --count 0").status, 2);
}

TEST(BenchCommand, CeresIsMeasuredBesideUs) {
  if (!std::filesystem::exists(program_dir() / "topograd_peer_ceres.so"))
    GTEST_SKIP() << "built without Ceres";
  struct Row {
    std::string arguments;
    double cost;  // published
  };
  for (const Row& row : {Row{"springs --width 30", 27.0082445932},
                         Row{"springs --width 30 --shuffle 3", 27.0082445932},
                         Row{"arap --mesh '" + spot() + "'", 3929.13617924},
                         Row{"smooth --noise 0.01 --mesh '" + spot() + "'", 6.25798337662}}) {
    const nlohmann::json report =
        bench(row.arguments + " --backend cpu --samples 1 --only jacobian");
    ASSERT_EQ(report["peers"].size(), 1u) << row.arguments;
    const nlohmann::json& peer = report["peers"][0];
    EXPECT_EQ(peer["name"], "Ceres");
    EXPECT_NEAR(peer["initial_cost"].get<double>(), row.cost, 1e-10 * row.cost) << row.arguments;
    EXPECT_NEAR(report["initial_cost"].get<double>(), row.cost, 1e-10 * row.cost) << row.arguments;
    EXPECT_NE(peer["libraries"].get<std::string>().find("blas"), std::string::npos);
    for (const char* key : {"build_s", "residual_us", "jacobian_us", "evaluate_jacobian_us",
                            "gradient_us", "jacobian_share_of_copy"})
      EXPECT_GT(peer[key].get<double>(), 0) << row.arguments << " " << key;
  }
  const std::string stars = "developable --icosphere 1 --backend cpu --samples 1 --only cost";
  const nlohmann::json energies = bench(stars);
  ASSERT_EQ(energies["peers"].size(), 1u);
  EXPECT_NEAR(energies["peers"][0]["initial_cost"].get<double>(), 12.3190256964, 1e-10);
  EXPECT_GT(energies["peers"][0]["gradient_us"].get<double>(), 0);
  EXPECT_TRUE(bench(stars + " --energy hinge")["peers"].empty());
}

TEST(BenchCommand, OperationsOfArraysAndTensors) {
  const nlohmann::json report = bench("ops --backend cpu --count 2000 --samples 1");
  std::set<std::string> timed;
  for (const nlohmann::json& row : report["rows"]) {
    timed.insert(row["op"]);
    EXPECT_EQ(row["count"], 2000);
    EXPECT_GT(row["cpu_us"].get<double>(), 0) << row;
    EXPECT_GT(row["cpu_one_us"].get<double>(), 0) << row;
  }
  for (const char* op : {"map",
                         "zip",
                         "reduce",
                         "compensated sum",
                         "product",
                         "min",
                         "max",
                         "norm",
                         "dot",
                         "argmax",
                         "scan",
                         "exclusive scan",
                         "segmented reduce",
                         "compact",
                         "gather",
                         "scatter",
                         "histogram",
                         "sort",
                         "argsort",
                         "sort by key",
                         "random uniform",
                         "random normal",
                         "matmul",
                         "matmul f16",
                         "transpose",
                         "sum of rows",
                         "sum of columns",
                         "softmax",
                         "log softmax",
                         "layer norm",
                         "conv2d",
                         "filter 3x3",
                         "max pool 2x2",
                         "avg pool 2x2",
                         "fft",
                         "rfft",
                         "fft2",
                         "relu",
                         "leaky relu",
                         "elu",
                         "gelu",
                         "sigmoid",
                         "tanh",
                         "silu",
                         "softplus",
                         "mse loss",
                         "mae loss",
                         "huber loss",
                         "tukey loss",
                         "binary cross entropy",
                         "cross entropy",
                         "cosine similarity",
                         "top 10",
                         "training step"})
    EXPECT_TRUE(timed.contains(op)) << op;
}

TEST(BenchCommand, OperationsAtSmallSizesAndWhatIsRefused) {
  const nlohmann::json report = bench("ops --backend cpu --count 5 --samples 1");
  for (const nlohmann::json& row : report["rows"]) EXPECT_GT(row["cpu_us"].get<double>(), 0) << row;
  EXPECT_FALSE(report.contains("crossover"));  // no device, so no crossover
  const nlohmann::json shapes =
      bench("ops --shapes --count 200000 --backend cpu --samples 1")["shapes"];
  ASSERT_EQ(shapes.size(), 1u) << "one is this small";
  EXPECT_EQ(shapes[0]["shape"], "training step, 784-512-10, batches of 128");
  EXPECT_GT(shapes[0]["us"].get<double>(), 0);
  const std::pair<const char*, const char*> rows[] = {
      {"--steps -3", "bench ops: expected --steps >= 1, got -3"},
      {"--steps 0", "bench ops: expected --steps >= 1, got 0"},
      {"--count 0", "bench ops: expected --count >= 1, got 0"},
      {"--claims --backend cpu --claim nothing",
       "bench ops: expected --claim with a part of a claim's name (map of 1 M; "},
      {"--claims --backend cpu --cpu-watts 0",
       "expected --cpu-watts and --device-watts > 0, got 0"},
      {"--count 9 --backend gqu",
       "backend: expected one of automatic, cpu, vulkan, auto, gpu, got \"gqu\""}};
  for (const auto& [arguments, text] : rows) {
    const CommandResult result = topograd(std::string("bench ops ") + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }
}

TEST(BenchCommand, ClaimsWithStatedWatts) {
  const nlohmann::json rows = bench(
      "ops --claims --claim \"vector add of\" --backend cpu --samples 1 --cpu-watts 200 "
      "--device-watts 50")["claims"];
  ASSERT_EQ(rows.size(), 3u) << "two rows and the mean";
  double saved = 0;
  for (const nlohmann::json& row : {rows[0], rows[1]}) {
    const double cpu = 200e-6 * row["cpu_us"].get<double>();
    const double device = 50e-6 * row["transfers_us"].get<double>();
    EXPECT_DOUBLE_EQ(row["stated_cpu_joules"], cpu) << row;
    EXPECT_DOUBLE_EQ(row["stated_device_joules"], device) << row;
    saved += (1 - device / cpu) / 2;
  }
  EXPECT_EQ(rows[2]["stated_cpu_watts"], 200);
  EXPECT_NEAR(rows[2]["stated_energy_saved"].get<double>(), saved, 1e-9);
  const nlohmann::json plain =
      bench("ops --claims --claim backward --backend cpu --samples 1")["claims"];
  ASSERT_EQ(plain.size(), 3u) << "backward alone, and with forward";
  EXPECT_FALSE(plain[0].contains("stated_cpu_joules"));
}

TEST(BenchCommand, TrainingKeepsItsMemory) {
  const nlohmann::json report = bench("ops --backend cpu --steps 300")["training"];
  EXPECT_EQ(report["device_bytes"]["tenth"], report["device_bytes"]["end"]);
  EXPECT_LT(report["loss_after_200"]["cpu"].get<double>(), 2);  // of ten classes, from 2.3 on
}

}  // namespace
}  // namespace topograd::test
