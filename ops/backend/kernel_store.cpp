// The process's store of kernel sources.
#include "kernel_store.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace topograd::ops {

const KernelText& kernel_for(const ir::Hash128& key, const std::function<KernelText()>& make) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::unordered_map<ir::Hash128, std::unique_ptr<const KernelText>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = texts.find(key); found != texts.end()) return *found->second;
  }
  auto made = std::make_unique<const KernelText>(make());
  const std::lock_guard lock(mutex);
  return *texts.try_emplace(key, std::move(made)).first->second;
}

}  // namespace topograd::ops
