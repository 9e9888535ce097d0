// The self-tests that CI runs on a Vulkan device.
#include <gtest/gtest.h>

#include "../../../tools/check/programs/ops.hpp"
#include "../../../tools/check/programs/random.hpp"

#include "../../support/validation.hpp"
#include "kinks.hpp"

namespace topograd::test {
namespace {

class CheckVulkan : public VulkanTest {};

TEST_F(CheckVulkan, OpsHoldTheirBounds) {
  const check::OpsReport report = check::check_ops({.backend = Backend::vulkan, .count = 300});
  for (const check::OpResult& r : report.results) {
    EXPECT_EQ(r.value.broken, 0u) << r.op << " " << name(r.precision) << ": " << r.value.ulp
                                  << " ulp, got " << r.value.got;
    EXPECT_EQ(r.derivative.broken, 0u) << r.op << " " << name(r.precision);
  }
}

TEST_F(CheckVulkan, TwoHundredRandomProgramsHold) {
  const check::RandomReport report =
      check::check_random({.backend = Backend::vulkan, .count = 200});
  EXPECT_LE(report.undecided_share, check::kMostUndecided);
  for (const check::Failure& f : report.failures) {
    ADD_FAILURE() << f.kind << " " << name(f.precision) << " seed " << f.seed << ": " << f.message
                  << "\n"
                  << f.program;
  }
}

TEST_F(CheckVulkan, KinksAreTheDocumentedOnes) {
  expect_documented_kinks(check::open_backends({.backend = Backend::vulkan}));
}

}  // namespace
}  // namespace topograd::test
