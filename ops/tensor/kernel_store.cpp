// Internal: kernels that were written once and are kept for the process.
#include <topograd/ops/tensor/kernel_store.hpp>

#include <mutex>
#include <unordered_map>

namespace topograd::ops::detail {

const KernelText& stored_kernel(const std::string& key, const std::function<KernelText()>& make) {
  static std::mutex mutex;
  static std::unordered_map<std::string, KernelText> kernels;
  const std::lock_guard lock(mutex);
  const auto found = kernels.find(key);
  return found != kernels.end() ? found->second : kernels.emplace(key, make()).first->second;
}

}  // namespace topograd::ops::detail
