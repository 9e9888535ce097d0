// Vulkan in tests: a device or a visible skip, and validation messages that fail the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../../codegen/kernel.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/driver/validation.hpp"

namespace topograd::test {

/// A device under validation, or null with the reason where there is none at all. Whatever else is
/// wrong is thrown.
struct FoundDevice {
  std::shared_ptr<runtime::vulkan::Device> device;
  std::string missing;
};
FoundDevice find_device(const runtime::vulkan::DeviceOptions& options = {});

/// Opens a device; throws Error where there is none. For tests that have asked before.
std::shared_ptr<runtime::vulkan::Device> require_device(
    const runtime::vulkan::DeviceOptions& options = {});

/// What the device that tests run on can do, without what TOPOGRAD_MASK hides. Throws Error where
/// there is none.
const runtime::vulkan::Features& tested_features();

/// In a test's body or SetUp: skips, visibly, where the device lacks the feature that the test is
/// about, as in TG_NEEDS(float64).
#define TG_NEEDS(feature)                           \
  if (!::topograd::test::tested_features().feature) \
  GTEST_SKIP() << "the device has no " #feature ", or TOPOGRAD_MASK hides it"

/// A test that needs a Vulkan device; skipped, saying why, where there is none.
class VulkanTest : public testing::Test {
 protected:
  void SetUp() override;
  /// f64, where the device has it, and f32.
  static std::vector<codegen::Precision> precisions();

  std::shared_ptr<runtime::vulkan::Device> device_;
};

/// True if the validation layer is on in this process.
bool validation_is_on();

/// Takes validation messages while it lives, so that they do not fail the test.
class CapturedValidation {
 public:
  CapturedValidation();
  ~CapturedValidation();
  CapturedValidation(const CapturedValidation&) = delete;
  CapturedValidation& operator=(const CapturedValidation&) = delete;

  /// What came so far.
  std::vector<runtime::vulkan::ValidationMessage> messages() const;

 private:
  struct Store;
  std::shared_ptr<Store> store_;
  runtime::vulkan::ValidationSink previous_;
};

}  // namespace topograd::test
