// The kernels that a recording needs, declared before it is made.
#pragma once

#include "../../device/kernels/launch.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// A set of kernels that are ready or being made: declaring a kernel begins to make it.
///
/// Every part has a need() beside its record(). A recording finds kernels that were declared and
/// refuses others, so that the kernels that are made ahead are those that run.
class Needs {
 public:
  void add(const LoadedKernel& kernel) {
    if (std::ranges::find(jobs_, kernel.job) == jobs_.end()) jobs_.push_back(kernel.job);
  }
  const std::vector<std::shared_ptr<KernelJob>>& jobs() const { return jobs_; }

 private:
  std::vector<std::shared_ptr<KernelJob>> jobs_;
};

/// Adds the kernels of one recording.
using Declare = std::function<void(Needs&)>;

}  // namespace topograd::runtime::vulkan
