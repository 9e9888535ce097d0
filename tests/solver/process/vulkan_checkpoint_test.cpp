// Resumed solves on a device have the bits of solves that were not interrupted.
#include "../../support/validation.hpp"
#include "checkpoint_cases.hpp"

#include <gtest/gtest.h>

namespace topograd {
namespace {

class VulkanCheckpoint : public test::VulkanTest {};

TEST_F(VulkanCheckpoint, ResumedSolvesHaveTheSameBits) {
  TG_NEEDS(float64);
  for (const test::CheckpointCase& row : test::checkpoint_cases())
    if (row.on_device) test::expect_resumes(row, Backend::vulkan);
}

}  // namespace
}  // namespace topograd
