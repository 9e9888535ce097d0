// Constrained problems on a Vulkan device, in f64.
#include "hock_schittkowski.hpp"

#include "../support/validation.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

class VulkanHockSchittkowski : public VulkanTest {};

TEST_F(VulkanHockSchittkowski, PublishedMinima) {
  TG_NEEDS(float64);
  check_hock_schittkowski({.backend = Backend::vulkan, .max_iterations = 200});
}

TEST_F(VulkanHockSchittkowski, BarrierStaysWithin) {
  TG_NEEDS(float64);
  check_barrier({.backend = Backend::vulkan, .max_iterations = 200});
}

}  // namespace
}  // namespace topograd::test
