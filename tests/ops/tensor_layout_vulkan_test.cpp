// Every tensor operation at odd sizes and on views, on a device, between guard zones.
#include "ops/masked.hpp"
#include "ops/tensor_cases.hpp"
#include "support/validation.hpp"

#include <topograd/ops/storage.hpp>
#include <topograd/ops/vulkan/backend.hpp>

#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

class TensorLayoutVulkan : public topograd::test::VulkanTest {
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

TEST_F(TensorLayoutVulkan, RowsAndLosses) { run_masked(check_rows_and_losses_of_views); }
TEST_F(TensorLayoutVulkan, Axes) { run_masked(check_axes_of_views); }
TEST_F(TensorLayoutVulkan, Products) { run_masked(check_products_of_views); }
TEST_F(TensorLayoutVulkan, Transforms) { run_masked(check_transforms_of_views); }
TEST_F(TensorLayoutVulkan, ManyNumbers) { run_masked(check_many_numbers); }
TEST_F(TensorLayoutVulkan, MoreBatchesThanALaunchTakes) {
  if (device_) check_batches(open_vulkan({.limits = {.max_workgroups_x = 5}}));
}

}  // namespace
}  // namespace topograd::ops::test
