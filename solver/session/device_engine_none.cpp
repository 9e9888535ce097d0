// Builds without Vulkan: there is never a device.
#include "device_engine.hpp"

namespace topograd {
namespace {

constexpr const char* kProblem =
    "this build has no Vulkan backend; configure with -DTOPOGRAD_VULKAN=ON";

}  // namespace

DeviceFacts probe_device(const SolverOptions&) {
  return {.available = false, .problem = kProblem, .code = ErrorCode::Unsupported};
}

ListedDevices devices_by_uuid(const SolverOptions&) { return {}; }

void require_self_check(const SolverOptions&) {}

std::unique_ptr<runtime::hybrid::DeviceBackend> make_device_backend(const SolverOptions&) {
  return runtime::hybrid::make_unavailable_backend("vulkan", kProblem);
}

void open_device(const SolverOptions&) {}

std::size_t add_devices(runtime::hybrid::Executor&, const SolverOptions&) { return 0; }

std::unique_ptr<runtime::Engine> make_device_engine(const runtime::Model&,
                                                    const runtime::EngineOptions&) {
  throw Error(ErrorCode::Unsupported, std::string("backend vulkan: ") + kProblem);
}

std::size_t unmade_kernels() { return 0; }

std::unique_ptr<runtime::RowRunner> make_device_rows(const runtime::EngineOptions&) {
  throw Error(ErrorCode::Unsupported, std::string("backend vulkan: ") + kProblem);
}

std::unique_ptr<runtime::ListedSolver> make_listed_solver(const runtime::EngineOptions&) {
  throw Error(ErrorCode::Unsupported, std::string("backend vulkan: ") + kProblem);
}

}  // namespace topograd
