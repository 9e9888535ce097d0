// Tests on a device whose buffers lie between guard zones.
#pragma once

#include "../support/validation.hpp"

#include "../../ops/run/storage.hpp"

#include <string>
#include <vector>

namespace topograd::ops::test {

/// Every buffer lies between zones that nobody may write.
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
