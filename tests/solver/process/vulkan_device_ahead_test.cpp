// A device that is opened beside other work is the one that a solve finds.
#include "../../support/validation.hpp"

#include "../../../runtime/device/device.hpp"
#include "../../../solver/solve/ahead.hpp"

namespace topograd {
namespace {

namespace vk = runtime::vulkan;

using DeviceAheadTest = test::VulkanTest;

TEST_F(DeviceAheadTest, OpensTheDeviceOfTheBackendVulkanAlone) {
  device_ = nullptr;
  vk::release_devices();
  { const DeviceAhead none({.backend = Backend::cpu}); }
  EXPECT_EQ(vk::find_open({}), nullptr);
  { const DeviceAhead none({.backend = Backend::automatic}); }
  EXPECT_EQ(vk::find_open({}), nullptr);
  { const DeviceAhead ahead({.backend = Backend::vulkan}); }
  EXPECT_NE(vk::find_open({}), nullptr);
}

TEST_F(DeviceAheadTest, LeavesErrorsToTheSolve) {
  EXPECT_NO_THROW(DeviceAhead({.backend = Backend::vulkan, .device = "no such device"}));
}

}  // namespace
}  // namespace topograd
