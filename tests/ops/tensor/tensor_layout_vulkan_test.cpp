// Every tensor operation at odd sizes and on views, on a device, between guard zones.
#include "../guarded.hpp"
#include "../masked.hpp"
#include "tensor_cases.hpp"

#include "../../../ops/vulkan/backend.hpp"

namespace topograd::ops::test {
namespace {

class TensorLayoutVulkan : public GuardedVulkanTest {};

TEST_F(TensorLayoutVulkan, RowsAndLosses) { run_masked(check_rows_and_losses_of_views); }
TEST_F(TensorLayoutVulkan, Axes) { run_masked(check_axes_of_views); }
TEST_F(TensorLayoutVulkan, Products) { run_masked(check_products_of_views); }
TEST_F(TensorLayoutVulkan, Parts) { run_masked(check_parts_of_views); }
TEST_F(TensorLayoutVulkan, Transforms) { run_masked(check_transforms_of_views); }
TEST_F(TensorLayoutVulkan, Activations) { run_masked(check_activations_of_views); }
TEST_F(TensorLayoutVulkan, ManyNumbers) { run_masked(check_many_numbers); }
TEST_F(TensorLayoutVulkan, MoreBatchesThanALaunchTakes) {
  if (device_) check_batches(open_vulkan({.limits = {.max_workgroups_x = 5}}));
}

}  // namespace
}  // namespace topograd::ops::test
