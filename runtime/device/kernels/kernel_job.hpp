// Kernels that are made by whichever thread comes first: one of the pool, or the one that needs it.
#pragma once

#include "../../../codegen/kernel.hpp"
#include "../kernel.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <memory>

namespace topograd::runtime::vulkan {

/// A kernel, the interface of its source, and what making it took.
struct MadeKernel {
  codegen::KernelSource source;
  Kernel kernel;
  double glsl_ms = 0, spirv_ms = 0, pipeline_ms = 0;  ///< as in KernelFigures
  const char* origin = "memory";
};

/// The making of one kernel. Any thread may call.
class KernelJob {
 public:
  explicit KernelJob(std::function<MadeKernel()> make);

  /// Makes the kernel here, unless somebody has begun to. Never throws for what making it threw.
  void run();
  /// It is there, or could not be made; does not wait.
  bool ready() const;
  /// Makes the kernel here, or waits for the thread that has begun to. Throws what making it threw.
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
