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

/// A device under validation, or null with the reason if there is none at all. Other errors are
/// thrown.
struct FoundDevice {
  std::shared_ptr<runtime::vulkan::Device> device;
  std::string missing;
};
FoundDevice find_device(const runtime::vulkan::DeviceOptions& options = {});

/// Opens a device; throws Error if there is none. For tests that have checked before.
std::shared_ptr<runtime::vulkan::Device> require_device(
    const runtime::vulkan::DeviceOptions& options = {});

/// Features of the test device without those that TOPOGRAD_MASK hides. Throws Error if there is
/// none.
const runtime::vulkan::Features& tested_features();

/// In a test's body or SetUp: skips, visibly, if the device lacks the tested feature, as in
/// TG_NEEDS(float64).
#define TG_NEEDS(feature)                           \
  if (!::topograd::test::tested_features().feature) \
  GTEST_SKIP() << "the device has no " #feature ", or TOPOGRAD_MASK hides it"

/// A test that needs a Vulkan device; without one it is skipped with the reason.
class VulkanTest : public testing::Test {
 protected:
  void SetUp() override;
  /// f32, and f64 if the device has it.
  static std::vector<codegen::Precision> precisions();

  std::shared_ptr<runtime::vulkan::Device> device_;
};

/// True if the validation layer is on in this process.
bool validation_is_on();

/// Captures validation messages while it lives, so that they do not fail the test.
class CapturedValidation {
 public:
  CapturedValidation();
  ~CapturedValidation();
  CapturedValidation(const CapturedValidation&) = delete;
  CapturedValidation& operator=(const CapturedValidation&) = delete;

  /// Messages so far.
  std::vector<runtime::vulkan::ValidationMessage> messages() const;

 private:
  struct Store;
  std::shared_ptr<Store> store_;
  runtime::vulkan::ValidationSink previous_;
};

}  // namespace topograd::test
