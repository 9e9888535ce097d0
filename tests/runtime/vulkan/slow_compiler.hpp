// A slow compiler, so that tests see the work done meanwhile.
#pragma once

#include "../../../runtime/device/kernels/kernel_cache.hpp"

#include <chrono>

namespace topograd::test {

/// Delays each kernel by this time while it lives.
class SlowCompiler {
 public:
  explicit SlowCompiler(std::chrono::milliseconds delay) {
    runtime::vulkan::set_compile_delay(delay);
  }
  SlowCompiler(const SlowCompiler&) = delete;
  SlowCompiler& operator=(const SlowCompiler&) = delete;
  ~SlowCompiler() { runtime::vulkan::set_compile_delay(std::chrono::milliseconds(0)); }
};

}  // namespace topograd::test
