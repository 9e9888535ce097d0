// Jobs of the pool that make kernels.
#include "kernel_job.hpp"

#include "../../../ir/machine/foreign_call.hpp"
#include "../../../ir/machine/parallel.hpp"

#include <chrono>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

// Never destroyed: threads of the pool may read it until the process ends.
ir::Arena& arena() {
  static ir::Arena& made = *new ir::Arena;
  return made;
}

}  // namespace

KernelJob::KernelJob(std::function<MadeKernel()> make)
    : make_(std::move(make)), future_(promise_.get_future()) {}

void KernelJob::run() {
  if (taken_.exchange(true)) return;
  try {
    promise_.set_value(make_());
  } catch (...) {
    promise_.set_exception(std::current_exception());
  }
  make_ = nullptr;  // releases the request
}

bool KernelJob::ready() const {
  return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

const MadeKernel& KernelJob::get() {
  const ForeignCall permission("kernel");  // the thread that began the job had it too
  run();
  return future_.get();
}

void run_in_background(const std::shared_ptr<KernelJob>& job) {
  arena().enqueue([weak = std::weak_ptr<KernelJob>(job)] {
    const auto held = weak.lock();
    if (held) run_if_callable([&] { held->run(); });
  });
}

}  // namespace topograd::runtime::vulkan
