// The Vulkan backend as the solver sees it.
#include "device_engine.hpp"

#include "../../ir/machine/platform.hpp"
#include "../../runtime/device/check/self_check.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/kernels/kernel_cache.hpp"
#include "../../runtime/hybrid/vulkan/hybrid_backend.hpp"
#include "../../runtime/vulkan/engine.hpp"
#include "../../runtime/vulkan/linear/listed_solver.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace topograd {
namespace {

namespace vk = runtime::vulkan;

vk::DeviceOptions device_options(const SolverOptions& options) {
  vk::DeviceOptions out;
  out.device = options.device;
  out.mask = options.restrictions.mask;
  out.float64 = options.float64;
  out.limits.max_storage_buffer_range = options.restrictions.max_storage_buffer_range;
  out.limits.max_allocation_size = options.restrictions.max_allocation_size;
  out.limits.max_workgroup_invocations = options.restrictions.max_workgroup_invocations;
  out.limits.shared_memory_bytes = options.restrictions.shared_memory_bytes;
  out.validation = options.validation;
  return out;
}

}  // namespace

DeviceFacts probe_device(const SolverOptions& options) {
  bool found = false;
  try {
    const vk::DeviceOptions wanted = device_options(options);
    const std::vector<vk::DeviceInfo> list = vk::devices(wanted);
    found = true;
    return vk::facts_of(list.at(vk::choose_device(list, wanted)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::InvalidArgument)
      throw;  // the caller's mistake, not the machine's
    const bool absent = error.code() == ErrorCode::NoLoader ||
                        error.code() == ErrorCode::NoDriver || error.code() == ErrorCode::NoDevice;
    return {.available = false,
            .problem = error.what(),
            .code = error.code(),
            .failed = !found && !absent};
  }
}

ListedDevices devices_by_uuid(const SolverOptions& options) {
  const vk::DeviceOptions wanted = device_options(options);
  std::vector<vk::DeviceInfo> list;
  try {
    list = vk::devices(wanted);
    if (!wanted.device.empty() || platform::environment("TOPOGRAD_DEVICE"))
      list = {list.at(vk::choose_device(list, wanted))};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::InvalidArgument) throw;
    return {};
  }
  std::erase_if(list, [](const vk::DeviceInfo& info) { return !info.unusable.empty(); });
  const bool software = std::ranges::all_of(list, &vk::DeviceInfo::software);
  if (!software) std::erase_if(list, [](const vk::DeviceInfo& info) { return info.software(); });
  std::ranges::stable_sort(list, {}, &vk::DeviceInfo::uuid);
  ListedDevices out{.names = {}, .software = software};
  for (const vk::DeviceInfo& info : list) out.names.push_back(std::to_string(info.index));
  return out;
}

void require_self_check(const SolverOptions& options) {
  vk::require_self_check(device_options(options));
}

std::unique_ptr<runtime::hybrid::DeviceBackend> make_device_backend(const SolverOptions& options) {
  const vk::DeviceOptions wanted = device_options(options);
  const std::vector<vk::DeviceInfo> list = vk::devices(wanted);
  return vk::make_hybrid_backend(wanted, list.at(vk::choose_device(list, wanted)));
}

void open_device(const SolverOptions& options) { vk::open(device_options(options)); }

std::size_t add_devices(runtime::hybrid::Executor& executor, const SolverOptions& options) {
  return vk::add_vulkan_devices(executor, device_options(options));
}

std::unique_ptr<runtime::Engine> make_device_engine(const runtime::Model& model,
                                                    const runtime::EngineOptions& options) {
  return vk::make_vulkan_engine(model, options);
}

std::size_t unmade_kernels() { return vk::unmade_kernels(); }

std::unique_ptr<runtime::RowRunner> make_device_rows(const runtime::EngineOptions& options) {
  return vk::make_row_runner(options);
}

std::unique_ptr<runtime::ListedSolver> make_listed_solver(const runtime::EngineOptions& options) {
  return vk::make_listed_solver(options);
}

}  // namespace topograd
