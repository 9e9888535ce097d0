// A backend that is never available, errors of devices, and the reopening of lost ones.
#include "backend.hpp"

#include <algorithm>
#include <utility>

#include "../../ir/machine/foreign_call.hpp"
#include "../../ir/machine/platform.hpp"

namespace topograd::runtime::hybrid {
namespace {

class Unavailable final : public DeviceBackend {
 public:
  Unavailable(std::string name, std::string problem)
      : name_(std::move(name)), problem_(std::move(problem)) {}

  Capabilities capabilities() const override {
    return {.name = name_, .kind = "none", .available = false, .problem = problem_};
  }
  RunReport run(const DeviceProgram&) override { refuse(); }
  void prepare(const DeviceProgram&) override { refuse(); }
  void reopen() override { refuse(); }

 private:
  [[noreturn]] void refuse() const { throw Error(ErrorCode::NoDevice, name_ + ": " + problem_); }

  std::string name_, problem_;
};

}  // namespace

std::string simd_level() {
  if (platform::has_avx512()) return "avx512";
  return platform::has_avx2() ? "avx2" : "baseline";
}

std::unique_ptr<DeviceBackend> make_unavailable_backend(std::string name, std::string problem) {
  return std::make_unique<Unavailable>(std::move(name), std::move(problem));
}

bool is_device_failure(ErrorCode code) {
  switch (code) {
    case ErrorCode::NoLoader:
    case ErrorCode::NoDriver:
    case ErrorCode::NoDevice:
    case ErrorCode::Unsupported:
    case ErrorCode::ShaderCompile:
    case ErrorCode::LayoutMismatch:
    case ErrorCode::DeviceLost:
    case ErrorCode::OutOfHostMemory:
    case ErrorCode::OutOfDeviceMemory:
    case ErrorCode::Timeout: return true;
    case ErrorCode::InvalidArgument:
    case ErrorCode::Shape:
    case ErrorCode::WrongProblem:
    case ErrorCode::StaleValue:
    case ErrorCode::EmptyProblem:
    case ErrorCode::NoParameters:
    case ErrorCode::StaleBranch:
    case ErrorCode::NonFinite:
    case ErrorCode::Parse:
    case ErrorCode::File:
    case ErrorCode::Stopped:
    case ErrorCode::Internal: break;
  }
  return false;
}

Error no_device_error(const TaskShape& task, Reason reason) {
  ErrorCode code = ErrorCode::NoDevice;
  if (reason == Reason::unsupported) code = ErrorCode::Unsupported;
  if (reason == Reason::memory_limit || reason == Reason::out_of_memory)
    code = ErrorCode::OutOfDeviceMemory;
  if (reason == Reason::breaker_open || reason == Reason::success_rate)
    code = ErrorCode::DeviceLost;
  return Error(code, "task \"" + std::string(task.operation) + "\": forced to a device, but " +
                         std::string(name(reason)));
}

ExecutorDevice::ExecutorDevice(std::unique_ptr<DeviceBackend> backend,
                               const Capabilities& capabilities, std::string name)
    : backend_(std::move(backend)),
      available_(capabilities.available),
      name_(std::move(name)),
      driver_(capabilities.available ? capabilities.driver : std::string()) {}

DeviceBackend& ExecutorDevice::ready() {
  if (lost_) {
    const ForeignCall permission("reopen");
    const std::lock_guard lock(reopening_);
    if (lost_) backend_->reopen();
    lost_ = false;
  }
  return *backend_;
}

std::size_t DeviceList::add(std::unique_ptr<DeviceBackend> backend,
                            const Capabilities& capabilities, Scheduler& scheduler) {
  const std::lock_guard lock(mutex_);
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(devices_, name, &ExecutorDevice::name) != devices_.end();
  };
  std::string name = capabilities.name;
  for (int k = 2; taken(name); ++k) name = capabilities.name + " #" + std::to_string(k);
  const ExecutorDevice& device = devices_.emplace_back(std::move(backend), capabilities, name);
  DeviceFacts facts = capabilities;
  facts.name = name;
  return scheduler.add_device(std::move(facts),
                              [b = &device.backend()] { return b->free_bytes(); });
}

ExecutorDevice& DeviceList::at(std::size_t target) const {
  const std::lock_guard lock(mutex_);
  return devices_.at(target - 1);
}

std::vector<ExecutorDevice*> DeviceList::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ExecutorDevice*> out;
  for (ExecutorDevice& one : devices_) out.push_back(&one);
  return out;
}

std::size_t DeviceList::find(std::string_view name) const {
  const std::vector<ExecutorDevice*> devices = all();
  const auto found = std::ranges::find(devices, name, &ExecutorDevice::name);
  return found == devices.end() ? kCpu : static_cast<std::size_t>(found - devices.begin()) + 1;
}

const std::string& DeviceList::name_of(std::size_t target) const {
  static const std::string& cpu = *new std::string("cpu");
  return target == kCpu ? cpu : at(target).name();
}

}  // namespace topograd::runtime::hybrid
