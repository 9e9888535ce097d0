// check faults and soak as users run them.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

TEST(FaultsCommand, EveryFailureEndsInTheRightAnswerOrATypedError) {
  const CommandResult result = topograd("check faults --json -");
  ASSERT_TRUE(result.status == 0 || result.status == 1) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  if (!found["failures"].empty()) ADD_FAILURE() << found["failures"].dump(2);
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(found["precision"] == "f64" || found["precision"] == "f32");
  EXPECT_EQ(found["wrong"], 0);
  EXPECT_EQ(found["crashed"], 0);
  EXPECT_EQ(found["leaked"], 0);
  EXPECT_EQ(found["miscounted"], 0);
  EXPECT_GT(found["fallbacks"], 100);
  EXPECT_GT(found["typed_errors"], 100);
  EXPECT_GT(found["injections"], 1000);
  EXPECT_EQ(found["injections"].get<int>(),
            found["right_answers"].get<int>() + found["typed_errors"].get<int>());
  // Calls of a program from opening a device to releasing it.
  for (const char* call : {"vkCreateInstance",
                           "vkEnumeratePhysicalDevices",
                           "vkCreateDevice",
                           "vkCreateBuffer",
                           "vkAllocateMemory",
                           "vkMapMemory",
                           "vkBindBufferMemory",
                           "vkCreateShaderModule",
                           "vkCreatePipelineCache",
                           "vkGetPipelineCacheData",
                           "vkCreateComputePipelines",
                           "vkCreateDescriptorPool",
                           "vkAllocateDescriptorSets",
                           "vkCreateCommandPool",
                           "vkAllocateCommandBuffers",
                           "vkBeginCommandBuffer",
                           "vkEndCommandBuffer",
                           "vkQueueSubmit",
                           "vkGetSemaphoreCounterValue",
                           "vkWaitSemaphores",
                           "vkDeviceWaitIdle"})
    EXPECT_GT(found["calls"].value(call, 0), 0) << call;
  ASSERT_EQ(found["lost_solves"].size(), 2u);
  for (const nlohmann::json& solve : found["lost_solves"]) {
    EXPECT_TRUE(solve["right"]);
    EXPECT_GE(solve["steps"], 50);
    EXPECT_GT(solve["steps_on_device"], 10);
    EXPECT_LT(solve["steps_on_device"], solve["steps"]);
    EXPECT_LE(solve["repeated_steps"], 2);
  }
}

TEST(StartCommand, CachesLeaveLittleOfWhatCompilingCost) {
  const std::string spot = (source_dir() / "samples/data/spot.obj").string();
  const CommandResult result = topograd("check start --json - --mesh " + spot);
  ASSERT_TRUE(result.status == 0 || result.status == 1) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  if (found["device"] == "") GTEST_SKIP() << "no device";
  EXPECT_EQ(result.status, 0) << found.dump(2);
  EXPECT_LE(found["second_over_first"], 0.1);
  EXPECT_GT(found["first_process"]["spirv_ms"], found["second_process"]["spirv_ms"]);
  EXPECT_GT(found["first_call_ms"], 2 * found["warm_call_ms"].get<double>());
  EXPECT_GT(found["warm_up_ms"], found["first_call_after_warm_up_ms"]);
  EXPECT_LT(found["first_call_after_warm_up_ms"], found["first_call_ms"]);
  EXPECT_LT(found["first_call_of_second_process_ms"], found["first_call_ms"]);
}

TEST(SoakCommand, NothingGrows) {
#ifdef TOPOGRAD_SANITIZED
  GTEST_SKIP() << "sanitizers keep what is freed for a while";
#endif
  // The validation layer uses more and more memory.
  const CommandResult result =
      topograd("check soak --seconds 60 --json -", "TOPOGRAD_VALIDATION=0");
  ASSERT_TRUE(result.status == 0 || result.status == 1) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  EXPECT_EQ(found["broken"], false) << found.dump(2);
  EXPECT_EQ(found["wrong"], 0);
  EXPECT_GT(found["solves"], 200);
  EXPECT_GT(found["device_objects"]["first"], 0);
  EXPECT_GT(found["device_bytes"]["first"], 0);
  for (const char* figure : {"heap_bytes", "device_bytes"})
    EXPECT_LE(found[figure]["growth"], 0.01) << figure;
  EXPECT_LE(found["resident_bytes"]["growth"], 0.05);
}

}  // namespace
}  // namespace topograd::test
