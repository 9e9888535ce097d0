// Defaults from the environment; in a separate process, because they are read once.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/options.hpp"

#include <string>

namespace topograd {
namespace {

std::string message() {
  try {
    process_defaults();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Environment, SetsTheDefaultsOfTheProcess) {
  using platform::set_environment;
  set_environment("TOPOGRAD_BACKEND", "cuda");
  EXPECT_EQ(message(),
            "TOPOGRAD_BACKEND: backend: expected one of automatic, cpu, vulkan, auto, gpu, got "
            "\"cuda\"");
  set_environment("TOPOGRAD_BACKEND", "gpu");
  set_environment("TOPOGRAD_FALLBACK_THRESHOLD", "77x");
  EXPECT_EQ(message(), "TOPOGRAD_FALLBACK_THRESHOLD: expected a whole number >= 0, got \"77x\"");
  set_environment("TOPOGRAD_FALLBACK_THRESHOLD", "77");
  set_environment("TOPOGRAD_MAX_INSTANCES_PER_DISPATCH", "1000");
  const ProcessDefaults defaults = process_defaults();
  EXPECT_EQ(defaults.backend, Backend::vulkan);
  EXPECT_EQ(defaults.fallback_threshold, 77u);
  EXPECT_EQ(defaults.max_instances_per_dispatch, 1000u);
}

}  // namespace
}  // namespace topograd
