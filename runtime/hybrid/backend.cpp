// A backend that is never available, and the errors that are failures of a device.
#include "backend.hpp"

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

}  // namespace topograd::runtime::hybrid
