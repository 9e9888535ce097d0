// bench ops on a device, and its figures in info --ops of a later process.
#include "../support/paths.hpp"
#include "../support/validation.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace topograd::test {
namespace {

class OpsCommandVulkan : public VulkanTest {
 protected:
  static nlohmann::json json_of(const std::string& arguments, const std::string& environment = "") {
    const CommandResult result = topograd(arguments + " --json -", environment);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  static nlohmann::json row(const nlohmann::json& info, const std::string& op) {
    for (const nlohmann::json& one : info["operations"])
      if (one["op"] == op) return one;
    ADD_FAILURE() << "no operation " << op;
    return {};
  }
};

TEST_F(OpsCommandVulkan, KernelsOfOperationsArePrinted) {
  const bool sorts = tested_features().subgroup_basic;
  const CommandResult sorted = topograd("dump --operation sort");
  EXPECT_EQ(sorted.status, sorts ? 0 : 2) << sorted.err;
  EXPECT_NE((sorts ? sorted.out : sorted.err).find(sorts ? "#version 450" : "expects subgroups"),
            std::string::npos)
      << sorted.out << sorted.err;
  const TemporaryDir folder;
  const CommandResult files =
      topograd("dump --operation map --emit spirv --out '" + folder.path().string() + "'");
  ASSERT_EQ(files.status, 0) << files.err;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++count;
    EXPECT_EQ(entry.path().extension(), ".spvasm");
    EXPECT_NE(read_file(entry.path()).find("OpEntryPoint GLCompute"), std::string::npos);
  }
  EXPECT_GE(count, 1u);
  const CommandResult none = topograd("dump --operation sorting");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("dump: expected --operation all, "), std::string::npos) << none.err;
}

// Kernels of solvers and of operations.
TEST_F(OpsCommandVulkan, AProgramWritesTheKernelsThatItAsksFor) {
  const TemporaryDir folder;
  const std::string kernels = (folder.path() / "kernels").string();
  const CommandResult solved =
      topograd("solve springs --width 6 --backend vulkan --precision f32 --quiet",
               "TOPOGRAD_KERNELS='" + kernels + "'");
  ASSERT_EQ(solved.status, 0) << solved.err;
  std::size_t count = 0, precise = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kernels)) {
    ++count;
    const std::string text = read_file(entry.path());
    EXPECT_NE(text.find("#version 450"), std::string::npos) << entry.path();
    precise += text.find("precise float") != text.npos;
  }
  EXPECT_GT(count, 4u);
  EXPECT_GT(precise, 1u);
}

TEST_F(OpsCommandVulkan, WhatBenchMeasuresIsKnownToALaterProcess) {
  const TemporaryDir folder;
  const std::string state = "TOPOGRAD_HYBRID_ADMIT_SOFTWARE=1 TOPOGRAD_HYBRID_STATE='" +
                            (folder.path() / "state").string() + "'";
  const nlohmann::json cold = row(json_of("info --ops", state), "sort");
  EXPECT_EQ(cold["kernels_measured"], 0);
  EXPECT_EQ(cold["measured_factor"], "not measured");
  EXPECT_EQ(cold["threshold"], cold["first_minimum"]);

  const nlohmann::json report =
      json_of("bench ops --backend vulkan --count 20000 --samples 3", state);
  for (const char* key : {"crossover", "crossover_with_transfers"})
    EXPECT_TRUE(report[key].contains("sort")) << key;
  for (const nlohmann::json& way : report["host_memory"]) {
    // The array and a result.
    EXPECT_GE(way["peak_device_bytes"].get<double>(), 4.0 * way["count"].get<double>()) << way;
    // Copies to memory that the host does not reach go through a staging buffer of fixed size.
    if (!report["unified"].get<bool>()) continue;
    EXPECT_LE(way["peak_device_bytes"].get<double>(), 16.0 * way["count"].get<double>()) << way;
  }
  const nlohmann::json info = json_of("info --ops", state);
  for (const char* op : {"map", "reduce", "scan", "sort", "fft", "matmul", "filter"}) {
    if (std::string_view(op) == "sort" && !tested_features().subgroup_basic) continue;
    const nlohmann::json one = row(info, op);
    EXPECT_GE(one["kernels_measured"], 1) << one;
    ASSERT_TRUE(one["measured_factor"].is_number()) << one;
    EXPECT_GT(one["measured_factor"].get<double>(), 0) << one;
    EXPECT_GT(one["threshold"].get<double>(), 0) << one;
  }
  // Measurements that the CPU won raise the threshold, those that the device won far below lower
  // it.
  bool moved = false;
  for (const nlohmann::json& one : info["operations"])
    moved |= one["threshold"].get<double>() != one["first_minimum"].get<double>();
  EXPECT_TRUE(moved) << info["operations"];
}

TEST_F(OpsCommandVulkan, ValuesOfOperationsArePrinted) {
  for (const char* backend : {"cpu", "vulkan"}) {
    const CommandResult shown =
        topograd(std::string("dump --operation relu --values --backend ") + backend);
    ASSERT_EQ(shown.status, 0) << shown.err;
    EXPECT_EQ(shown.out.find("// relu\nmap of 64\n  operand 0: "), 0u) << shown.out;
    EXPECT_NE(shown.out.find(" = relu %0: "), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find("  result 0 on "), std::string::npos) << shown.out;
  }
}

TEST_F(OpsCommandVulkan, OperationsAreWarmedUpForAnotherProcess) {
  const TemporaryDir cache;
  const std::string environment = "TOPOGRAD_CACHE_DIR='" + cache.path().string() + "'";
  const std::string one = "warm-up --operation \"softmax\" --backend vulkan";
  const nlohmann::json first = json_of(one, environment);
  ASSERT_EQ(first["operations"].size(), 1u);
  const nlohmann::json& row = first["operations"][0];
  EXPECT_EQ(row["operation"], "softmax");
  EXPECT_GE(row["shaders_compiled"].get<int>(), 1) << row;
  EXPECT_EQ(row["shader_cache_hits"], 0) << row;
  const nlohmann::json again = json_of(one, environment);
  EXPECT_EQ(again["shaders_compiled"], 0);
  EXPECT_EQ(again["operations"][0]["shader_cache_hits"], row["shaders_compiled"]);
  const CommandResult unknown = topograd("warm-up --operation sorting");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("warm-up: expected --operation all, "), std::string::npos)
      << unknown.err;
  const CommandResult neither = topograd("warm-up");
  EXPECT_EQ(neither.status, 2);
  EXPECT_NE(neither.err.find("expected a problem or --operation"), std::string::npos)
      << neither.err;
  EXPECT_NE(topograd("warm-up --operation all --backend cpu").out.find("nothing to compile"),
            std::string::npos);
}

TEST_F(OpsCommandVulkan, NoCrossoverWithoutTheCpu) {
  const nlohmann::json report =
      json_of("bench ops --backend vulkan --count 300 --samples 1 --device-only");
  EXPECT_FALSE(report.contains("crossover"));
  for (const nlohmann::json& one : report["rows"]) {
    EXPECT_FALSE(one.contains("cpu_us")) << one;
    EXPECT_TRUE(one.contains("device_us") || one.contains("problem")) << one;
  }
}

TEST_F(OpsCommandVulkan, TrainsToTheLossOfTheCpu) {
  const nlohmann::json report = json_of("bench ops --backend vulkan --steps 300")["training"];
  EXPECT_EQ(report["device_bytes"]["tenth"], report["device_bytes"]["end"]);
  const double loss = report["loss_after_200"]["cpu"];
  EXPECT_LT(loss, 2);  // for ten classes, from 2.3 on
  EXPECT_NEAR(report["loss_after_200"]["device"].get<double>(), loss, 1e-3 * loss);
}

}  // namespace
}  // namespace topograd::test
