// Tests on a device with guard zones around buffers.
#pragma once

#include "../support/validation.hpp"

#include "../../ops/run/storage.hpp"

#include <string>
#include <vector>

namespace topograd::ops::test {

/// Guard zones that nobody may write surround every buffer.
class GuardedVulkanTest : public topograd::test::VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    set_guard_zones(256);
  }
  void TearDown() override {
    EXPECT_EQ(check_guard_zones(), std::vector<std::string>{});
    set_guard_zones(0);
    VulkanTest::TearDown();
  }
};

}  // namespace topograd::ops::test
