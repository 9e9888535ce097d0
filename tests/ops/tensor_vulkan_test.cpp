// Tensors on a device: what they are on the CPU.
#include "ops/tensor_cases.hpp"
#include "support/validation.hpp"

namespace topograd::ops::test {
namespace {

class TensorVulkan : public topograd::test::VulkanTest {};

TEST_F(TensorVulkan, Elementwise) { check_elementwise(Device::vulkan()); }
TEST_F(TensorVulkan, Reductions) { check_reductions(Device::vulkan()); }
TEST_F(TensorVulkan, Matmul) { check_matmul(Device::vulkan()); }
TEST_F(TensorVulkan, Rows) { check_rows(Device::vulkan()); }
TEST_F(TensorVulkan, Fft) { check_fft(Device::vulkan()); }
TEST_F(TensorVulkan, Conv) { check_conv(Device::vulkan()); }
TEST_F(TensorVulkan, Search) { check_search(Device::vulkan()); }
TEST_F(TensorVulkan, Half) { check_half(Device::vulkan()); }
TEST_F(TensorVulkan, Trains) { check_training(Device::vulkan()); }

}  // namespace
}  // namespace topograd::ops::test
