// The order in which residuals were added does not matter to a solve on a Vulkan device.
#include <gtest/gtest.h>

#include "../../support/validation.hpp"
#include "order_cases.hpp"

namespace topograd {
namespace {

class VulkanResidualOrder : public test::VulkanTest {};

TEST_F(VulkanResidualOrder, LeadsToTheSameMinimum) {
  TG_NEEDS(float64);
  test::expect_order_does_not_matter({.backend = Backend::vulkan});
}

}  // namespace
}  // namespace topograd
