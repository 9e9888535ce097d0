// Turns the validation layer on for a test binary and fails tests on its messages.
#include "validation.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "../../ir/error.hpp"

namespace topograd::test {
namespace {

using runtime::vulkan::ValidationMessage;

// Exact ids of messages that say nothing about this project, each with the reason. None so far.
constexpr std::string_view kSuppressed[] = {""};

bool suppressed(const ValidationMessage& message) {
  return !message.id.empty() && std::ranges::find(kSuppressed, message.id) != std::end(kSuppressed);
}

void report(const char* when) {
  for (const ValidationMessage& message : runtime::vulkan::take_validation_messages()) {
    if (suppressed(message)) continue;
    ADD_FAILURE() << "validation " << (message.error ? "error" : "warning") << " " << when << ": "
                  << message.id << "\n"
                  << message.text;
  }
}

class Listener : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { report("in this test"); }
};

// Devices are destroyed at the end of the run, so that leaks are reported too.
class Teardown : public testing::Environment {
  void TearDown() override {
    runtime::vulkan::release_devices();
    report("when the devices were closed");
  }
};

// Runs before main, and so before any test opens a device.
const bool kRegistered = [] {
  if (std::getenv("TOPOGRAD_VALIDATION") == nullptr) setenv("TOPOGRAD_VALIDATION", "1", 0);
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  testing::AddGlobalTestEnvironment(new Teardown);
  return true;
}();

bool is_missing(ErrorCode code) {
  return code == ErrorCode::NoLoader || code == ErrorCode::NoDriver || code == ErrorCode::NoDevice;
}

}  // namespace

FoundDevice find_device(const runtime::vulkan::DeviceOptions& options) {
  try {
    return {runtime::vulkan::open(options), {}};
  } catch (const Error& error) {
    if (!is_missing(error.code())) throw;
    return {nullptr, error.what()};
  }
}

std::shared_ptr<runtime::vulkan::Device> require_device(
    const runtime::vulkan::DeviceOptions& options) {
  return runtime::vulkan::open(options);
}

const runtime::vulkan::Features& tested_features() {
  static const runtime::vulkan::Features features = [] {
    const auto devices = runtime::vulkan::devices();
    return devices.at(runtime::vulkan::choose_device(devices, {})).features;
  }();
  return features;
}

std::vector<codegen::Precision> VulkanTest::precisions() {
  if (!tested_features().float64) return {codegen::Precision::f32};
  return {codegen::Precision::f64, codegen::Precision::f32};
}

void VulkanTest::SetUp() {
  FoundDevice found = find_device();
  if (!found.device) GTEST_SKIP() << found.missing;
  device_ = std::move(found.device);
}

bool validation_is_on() {
  const char* value = std::getenv("TOPOGRAD_VALIDATION");
  return kRegistered && value != nullptr && std::string_view(value) == "1";
}

struct CapturedValidation::Store {
  std::mutex mutex;
  std::vector<ValidationMessage> messages;
};

CapturedValidation::CapturedValidation() : store_(std::make_shared<Store>()) {
  previous_ = runtime::vulkan::set_validation_sink([store = store_](const auto& message) {
    const std::lock_guard lock(store->mutex);
    store->messages.push_back(message);
  });
}

CapturedValidation::~CapturedValidation() {
  runtime::vulkan::set_validation_sink(std::move(previous_));
}

std::vector<ValidationMessage> CapturedValidation::messages() const {
  const std::lock_guard lock(store_->mutex);
  return store_->messages;
}

}  // namespace topograd::test
