// Tensors on a device: what they are on the CPU.
#include "ops/tensor_cases.hpp"
#include "support/validation.hpp"

#include <topograd/ops/storage.hpp>

#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

/// Every buffer lies between zones that nobody may write.
class TensorVulkan : public topograd::test::VulkanTest {
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

TEST_F(TensorVulkan, Elementwise) { check_elementwise(Device::vulkan()); }
TEST_F(TensorVulkan, Reductions) { check_reductions(Device::vulkan()); }
TEST_F(TensorVulkan, Matmul) { check_matmul(Device::vulkan()); }
TEST_F(TensorVulkan, Rows) { check_rows(Device::vulkan()); }
TEST_F(TensorVulkan, Fft) { check_fft(Device::vulkan()); }
TEST_F(TensorVulkan, Conv) { check_conv(Device::vulkan()); }
TEST_F(TensorVulkan, Search) { check_search(Device::vulkan()); }
TEST_F(TensorVulkan, Half) { check_half(Device::vulkan()); }
TEST_F(TensorVulkan, Trains) {
  set_guard_zones(0);  // zones keep what is freed, and this watches the memory
  check_training(Device::vulkan());
}

}  // namespace
}  // namespace topograd::ops::test
