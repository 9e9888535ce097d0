// Kernels that are made by the first available thread: one of the pool, or the one that needs it.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../kernel.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <memory>

namespace topograd::runtime::vulkan {

/// A kernel, the interface of its source, and its compilation times.
struct MadeKernel {
  codegen::KernelSource source;
  Kernel kernel;
  double glsl_ms = 0, spirv_ms = 0, pipeline_ms = 0;  ///< as in KernelFigures
  const char* origin = "memory";
};

/// The making of one kernel. Thread-safe.
class KernelJob {
 public:
  explicit KernelJob(std::function<MadeKernel()> make);

  /// Makes the kernel on this thread unless another has started. Keeps errors for get().
  void run();
  /// True if it was made or has failed; does not wait.
  bool ready() const;
  /// Makes the kernel on this thread, or waits for the thread that does. Throws the compilation's
  /// error.
  const MadeKernel& get();

 private:
  std::function<MadeKernel()> make_;
  std::atomic<bool> taken_{false};
  std::promise<MadeKernel> promise_;
  std::shared_future<MadeKernel> future_;
};

/// Lets a thread of TBB's pool run the job, if somebody still holds it then.
void run_in_background(const std::shared_ptr<KernelJob>& job);

}  // namespace topograd::runtime::vulkan
