// check routing, and the metrics and traces of solves, as users run them.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace topograd::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct File {
  explicit File(const std::string& name)
      : path((std::filesystem::temp_directory_path() /
              ("topograd_" + std::to_string(getpid()) + name))
                 .string()) {}
  ~File() { std::remove(path.c_str()); }
  const std::string path;
};

TEST(HybridCommand, SolveLeavesMetricsAndATrace) {
  const File metrics(".prom"), json(".json"), trace(".trace");
  for (const File* file : {&metrics, &json}) {
    const CommandResult result =
        topograd("solve springs --width 12 --quiet --max-iterations 5 --metrics " + file->path +
                 " --trace " + trace.path);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  const std::string text = text_of(metrics.path);
  EXPECT_NE(text.find("topograd_routing_total{device=\"cpu\",reason=\"below_minimum\"} 1"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("topograd_tasks_total{operation=\"solve\",device=\"cpu\",result=\"success\"} 1"),
      std::string::npos)
      << text;
  const nlohmann::json counted = nlohmann::json::parse(text_of(json.path));
  EXPECT_EQ(counted["metrics"]["topograd_tasks_total"]["samples"][0]["value"], 1);
  EXPECT_EQ(counted["kernels"][0]["operation"], "solve");

  const nlohmann::json events = nlohmann::json::parse(text_of(trace.path))["traceEvents"];
  int steps = 0;
  for (const nlohmann::json& event : events) {
    if (!event["name"].get<std::string>().starts_with("step")) continue;
    ++steps;
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_TRUE(event["args"].contains("cost"));
  }
  EXPECT_EQ(steps, 6) << "the start and five steps";
}

TEST(HybridCommand, FilesThatCannotBeWrittenAreSaidBeforeTheWork) {
  const File json(".json");
  const char* const commands[] = {
      "solve springs --width 12 --metrics", "solve springs --width 12 --trace",
      "solve springs --width 12 --training-data", "check corruption --backend cpu --json",
      "bench springs --width 12 --json"};
  for (const std::string command : commands) {
    for (const std::string& at : {std::string("/nowhere/x"), std::string("/")}) {
      const CommandResult result = topograd(command + " " + at);
      EXPECT_EQ(result.status, 2) << command;
      EXPECT_EQ(result.err, "topograd: " + at + ": cannot be written\n");
      EXPECT_EQ(result.out, "") << command << ": nothing was done";
    }
  }
  // Files that could be written are neither left behind nor changed.
  const std::string both = "solve springs --width 12 --json " + json.path + " --metrics /nowhere/x";
  EXPECT_EQ(topograd(both).status, 2);
  EXPECT_FALSE(std::filesystem::exists(json.path));
  std::ofstream(json.path) << "kept";
  EXPECT_EQ(topograd(both).status, 2);
  EXPECT_EQ(text_of(json.path), "kept");
  EXPECT_EQ(topograd("solve springs --width 4 --quiet --metrics /dev/null").status, 0);
}

TEST(HybridCommand, MisspeltVariablesAreErrors) {
  const CommandResult result =
      topograd("solve springs --width 4 --quiet", "TOPOGRAD_HYBRID_MIN_BACH=1");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err.find("topograd: TOPOGRAD_HYBRID_MIN_BACH: expected"), 0u) << result.err;
}

TEST(HybridCommand, MemoryLimitHoldsForSolves) {
#ifndef TOPOGRAD_WITH_VULKAN
  GTEST_SKIP() << "built without Vulkan";
#endif
  const std::string device =
      "TOPOGRAD_HYBRID_STATE=none TOPOGRAD_HYBRID_ADMIT_SOFTWARE=1 TOPOGRAD_FALLBACK_THRESHOLD=0";
  const auto why = [&](const std::string& limit) {
    const CommandResult result =
        topograd("solve springs --width 12 --precision f32 --max-iterations 1 --json -",
                 device + " TOPOGRAD_HYBRID_MEMORY_LIMIT=" + limit);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out)["why"].get<std::string>();
  };
  const std::string without = why("0");
  if (without.find("no Vulkan d") != std::string::npos || without.find("cpu: no") == 0)
    GTEST_SKIP() << without;
  EXPECT_EQ(without.find("memory"), std::string::npos) << without;
  EXPECT_NE(why("1").find("more memory than"), std::string::npos) << why("1");
}

TEST(HybridCommand, AFallbackIsAWarningOfOneLine) {
#ifdef TOPOGRAD_WITH_VULKAN
  const CommandResult result =
      topograd("solve springs --width 12 --max-iterations 300 --json -",
               "TOPOGRAD_VALIDATION=0 TOPOGRAD_FALLBACK_THRESHOLD=0 TOPOGRAD_HYBRID_STATE=none "
               "TOPOGRAD_VULKAN_LOADER=" TOPOGRAD_FAILING_LOADER);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err.find("topograd: warning: task \"solve\": vulkan failed, the CPU takes over: "
                            "vkCreateInstance"),
            0u)
      << result.err;
  const std::string rest = result.err.substr(result.err.find('\n') + 1);  // the solve's own line
  EXPECT_TRUE(rest.empty() || rest.starts_with("topograd: warning: NO_CONVERGENCE")) << result.err;
  EXPECT_LE(std::ranges::count(rest, '\n'), 1) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["backend"], "cpu") << "the report alone";
#else
  GTEST_SKIP() << "built without Vulkan";
#endif
}

TEST(HybridCommand, ModelsMoveBetweenMachines) {
  const TemporaryDir here, there;
  const auto at = [](const TemporaryDir& folder) {
    return "TOPOGRAD_HYBRID_STATE=" + (folder.path() / "state").string();
  };
  const std::string file = (here.path() / "model.json").string();
  const CommandResult nothing = topograd("model export " + file, at(here));
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("nothing has been learned yet"), std::string::npos) << nothing.err;

  ASSERT_EQ(topograd("solve springs --width 12 --max-iterations 5 --quiet", at(here)).status, 0);
  const CommandResult exported = topograd("model export " + file, at(here));
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_EQ(exported.out, "1 kernels\n");
  const CommandResult merged = topograd("model merge " + file, at(there));
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_EQ(topograd("model export -", at(there)).out, text_of(file));

  std::ofstream(file) << "{\"format\": 7}";
  const CommandResult refused = topograd("model merge " + file, at(there));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("format 7, expected 1"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find(std::string(file)), std::string::npos) << refused.err;
}

TEST(HybridCommand, TrainingDataAreRowsOfRuns) {
  const File csv(".csv"), json(".json");
  for (const File* file : {&csv, &json}) {
    const CommandResult result = topograd(
        "solve springs --width 12 --quiet --max-iterations 6 --training-data " + file->path);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  const std::string text = text_of(csv.path);
  EXPECT_EQ(
      text.find(
          "target,kernel,operation,size,operations,bytes,parallelism,reuse,pattern,family,us\n"),
      0u)
      << text;
  const nlohmann::json rows = nlohmann::json::parse(text_of(json.path));
  ASSERT_EQ(rows.size(), 1u) << "one solve";
  EXPECT_EQ(rows[0]["target"], "cpu");
  EXPECT_EQ(rows[0]["operation"], "solve");
  EXPECT_GT(rows[0]["size"], 12 * 12);
  EXPECT_GT(rows[0]["operations"], 3) << "of a spring";
  EXPECT_GT(rows[0]["us"], 0);
}

TEST(HybridCommand, DamagedFilesAreColdStarts) {
  const CommandResult result = topograd("check corruption --json -");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_GT(report["injections"], 500);
  EXPECT_EQ(report["cold_starts"], report["injections"]) << report["failures"];
  EXPECT_GT(report["reads_beside_writers"], 0);
  EXPECT_EQ(report["writes_on_full_disk"], 10);
  EXPECT_EQ(report["rounds"], 1);

  // Each backend's files alone, and more of them in more time.
  const auto check = [](const std::string& options) {
    const CommandResult one = topograd("check corruption --json - " + options);
    EXPECT_EQ(one.status, 0) << options << one.out << one.err;
    return nlohmann::json::parse(one.out);
  };
  const nlohmann::json cpu = check("--backend cpu"), vulkan = check("--backend vulkan");
  EXPECT_EQ(cpu["reads_beside_writers"], 0) << "of the model there is one writer a process";
  EXPECT_GT(cpu["injections"], 100);
  EXPECT_EQ(cpu["injections"].get<int>() + vulkan["injections"].get<int>(), report["injections"]);
  const nlohmann::json longer = check("--backend cpu --seconds 3");
  EXPECT_GT(longer["rounds"], 1);
  EXPECT_GT(longer["injections"], cpu["injections"]);
  const CommandResult refused = topograd("check corruption --seconds -1");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("seconds must be >= 0"), std::string::npos) << refused.err;
}

TEST(HybridCommand, FaultsOfTheCpuAreNone) {
  const CommandResult text = topograd("check faults --backend cpu");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out,
            "0 injections: backend cpu calls no driver: there was nothing to make fail\n");
  const CommandResult json = topograd("check faults --backend cpu --json -");
  EXPECT_EQ(json.status, 0) << json.err;
  const nlohmann::json report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["injections"], 0);
  EXPECT_EQ(report["broken"], false);
  EXPECT_NE(report["note"], "");
  const CommandResult refused = topograd("check faults --seconds -3");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("check faults: seconds must be >= 0, got -3"), std::string::npos);
}

TEST(HybridCommand, TraceOfASetIsRefused) {
  const CommandResult result = topograd("solve nist --trace /tmp/never --quiet");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("--trace expects a problem"), std::string::npos) << result.err;
}

TEST(HybridCommand, RoutingWithoutADeviceHasNothingToDecide) {
  const CommandResult result = topograd("check routing --backend cpu --seconds 0.2 --json -");
  ASSERT_NE(result.status, 2) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["check"], "routing");
  EXPECT_EQ(result.status, report["broken"].get<bool>() ? 1 : 0);  // by times of two paced devices
  EXPECT_FALSE(report["schedules"].empty());
  EXPECT_EQ(report["device"], "");
  EXPECT_EQ(report["tasks"], 0);
  EXPECT_TRUE(report["right_share"].is_null()) << "no task, no share";
  EXPECT_TRUE(report["time_over_oracle"].is_null());
  EXPECT_NE(report["note"], "");
  EXPECT_EQ(report["wrong_results"], 0);
  EXPECT_GT(report["decision_ns"], 0);
  EXPECT_GT(report["results"].size(), 20u);
  const CommandResult refused = topograd("check routing --seconds -1");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("seconds must be > 0"), std::string::npos) << refused.err;
}

TEST(HybridCommand, RoutingTakesASoftwareDeviceThatIsAdmitted) {
#ifndef TOPOGRAD_WITH_VULKAN
  GTEST_SKIP() << "built without Vulkan";
#endif
  const std::string command = "check routing --seconds 0.5 --json -";
  const CommandResult alone = topograd(command, "TOPOGRAD_HYBRID_ADMIT_SOFTWARE=0");
  const nlohmann::json without = nlohmann::json::parse(alone.out);
  if (without["note"].get<std::string>().find(" is software") == std::string::npos)
    GTEST_SKIP() << "no software device: " << without["note"];
  EXPECT_EQ(alone.status, without["broken"].get<bool>() ? 1 : 0);
  EXPECT_EQ(without["tasks"], 0);
  const nlohmann::json with =
      nlohmann::json::parse(topograd(command, "TOPOGRAD_HYBRID_ADMIT_SOFTWARE=1").out);
  EXPECT_NE(with["device"], "");
  EXPECT_EQ(with["note"], "");
  EXPECT_GE(with["tasks"], 64);
  EXPECT_TRUE(with["right_share"].is_number());
}

TEST(HybridCommand, RoutingOnADeviceGivesRightResults) {
#ifndef TOPOGRAD_WITH_VULKAN
  GTEST_SKIP() << "built without Vulkan";
#endif
  const CommandResult result = topograd("check routing --backend vulkan --seconds 2 --json -");
  if (result.status == 2) GTEST_SKIP() << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  // Times on a busy machine mean little; correct results, and a status that agrees with the report,
  // hold on any machine.
  EXPECT_EQ(result.status, report["broken"].get<bool>() ? 1 : 0);
  EXPECT_GE(report["tasks"], 64);
  EXPECT_EQ(report["wrong_results"], 0);
  std::uint64_t on_cpu = 0, on_device = 0;
  for (const nlohmann::json& row : report["results"]) {
    on_cpu += row["on_cpu"].get<std::uint64_t>();
    on_device += row["on_device"].get<std::uint64_t>();
  }
  EXPECT_EQ(on_cpu + on_device, report["tasks"]);
  EXPECT_GT(on_cpu, 0u);
}

}  // namespace
}  // namespace topograd::test
