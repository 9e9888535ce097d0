// Checks under a feature mask: operations that need a masked feature are refused by name.
#pragma once

#include <gtest/gtest.h>

#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"
#include "../../ops/backend/device.hpp"

namespace topograd::ops::test {

/// Runs a check on the device. Under TOPOGRAD_MASK the rest is skipped, visibly, if an operation
/// lacks a masked feature.
inline void run_masked(void (*check)(const Device&)) {
  try {
    check(Device::vulkan());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported || !platform::environment("TOPOGRAD_MASK")) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace topograd::ops::test
