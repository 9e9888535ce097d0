// Columns that change, on a device.
#include "../../support/validation.hpp"
#include "column_checks.hpp"

namespace topograd::test {
namespace {

class VulkanColumnChanges : public VulkanTest {};

TEST_F(VulkanColumnChanges, FollowTheirNumbers) {
  TG_NEEDS(float64);
  check_changing_columns({.backend = Backend::vulkan});
}

}  // namespace
}  // namespace topograd::test
