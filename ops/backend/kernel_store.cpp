// The process's store of generated kernels.
#include "kernel_store.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace topograd::ops {

const ComputeKernel& kernel_for(const ir::Hash128& key,
                                const std::function<ComputeKernel()>& make) {
  static auto& mutex = *new std::mutex;
  static auto& kernels = *new std::unordered_map<ir::Hash128, std::unique_ptr<const ComputeKernel>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kernels.find(key); found != kernels.end()) return *found->second;
  }
  auto made = std::make_unique<const ComputeKernel>(make());
  const std::lock_guard lock(mutex);
  return *kernels.try_emplace(key, std::move(made)).first->second;
}

const ComputeKernel& kernel_for(std::string_view key, const std::function<ComputeKernel()>& make) {
  return kernel_for(key_of(key), make);
}

}  // namespace topograd::ops
