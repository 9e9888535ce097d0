// Names of the error codes.
#include "error.hpp"

namespace topograd {

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument: return "invalid_argument";
    case ErrorCode::Shape: return "shape";
    case ErrorCode::WrongProblem: return "wrong_problem";
    case ErrorCode::StaleValue: return "stale_value";
    case ErrorCode::EmptyProblem: return "empty_problem";
    case ErrorCode::NoParameters: return "no_parameters";
    case ErrorCode::StaleBranch: return "stale_branch";
    case ErrorCode::NonFinite: return "non_finite";
    case ErrorCode::Parse: return "parse";
    case ErrorCode::File: return "file";
    case ErrorCode::NoLoader: return "no_loader";
    case ErrorCode::NoDriver: return "no_driver";
    case ErrorCode::NoDevice: return "no_device";
    case ErrorCode::Unsupported: return "unsupported";
    case ErrorCode::ShaderCompile: return "shader_compile";
    case ErrorCode::LayoutMismatch: return "layout_mismatch";
    case ErrorCode::DeviceLost: return "device_lost";
    case ErrorCode::OutOfHostMemory: return "out_of_host_memory";
    case ErrorCode::OutOfDeviceMemory: return "out_of_device_memory";
    case ErrorCode::Timeout: return "timeout";
    case ErrorCode::Stopped: return "stopped";
    case ErrorCode::Internal: return "internal";
  }
  return "unknown";
}

}  // namespace topograd
