// The one exception type of the library, its codes, and the check for objects that were moved from.
#pragma once

#include <stdexcept>
#include <string>

#include "enum_table.hpp"

namespace topograd {

/// Kind of mistake or failure that an Error reports. The manual (docs/errors.md) lists all of them.
enum class ErrorCode {
  InvalidArgument,    ///< a value outside of its documented range
  Shape,              ///< sizes that do not fit each other
  WrongProblem,       ///< a parameter, uniform or Value of another problem
  StaleValue,         ///< a Value kept after its graph was recycled
  EmptyProblem,       ///< nothing to evaluate or minimise
  NoParameters,       ///< a residual that does not depend on a parameter
  StaleBranch,        ///< an `if` on a Value that holds no longer, and nothing to trace it again
  NonFinite,          ///< NaN or infinity where a finite number is needed
  Parse,              ///< malformed text (IR, expression, JSON, mesh)
  File,               ///< a file that cannot be read or written
  NoLoader,           ///< the Vulkan loader library is missing
  NoDriver,           ///< a loader, but no Vulkan driver
  NoDevice,           ///< a driver, but no device that fits
  Unsupported,        ///< the device or build cannot do what was forced
  ShaderCompile,      ///< generated source was refused by the shader compiler
  LayoutMismatch,     ///< a compiled module disagrees with the host's layout
  DeviceLost,         ///< the device stopped answering
  OutOfHostMemory,    ///< an allocation in host memory failed
  OutOfDeviceMemory,  ///< an allocation in device memory failed
  Timeout,            ///< no progress within the configured bound
  Stopped,            ///< a callback asked to stop
  Internal,           ///< a defect of the library
};

/// The name of a code is stable: "out_of_device_memory".
TG_ENUM_NAMES(ErrorCode)

/// Thrown for callers' mistakes and for failures of devices and files.
///
/// The message says, in lower case, the call, what was expected, what came, and where.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Returns the owned object. Throws Error{InvalidArgument} if its owner was moved from.
///
///   owned  a std::unique_ptr or std::shared_ptr
///   name   type of the owner, at the start of the message
template <class Owner>
auto& require_not_moved_from(const Owner& owned, const char* name) {
  if (owned == nullptr) [[unlikely]]
    throw Error(ErrorCode::InvalidArgument,
                std::string(name) + ": it was moved from; expected the one that it was moved to");
  return *owned;
}

}  // namespace topograd
