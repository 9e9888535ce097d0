// Devices as the hybrid executor sees them.
#pragma once

#include "routing/scheduler.hpp"
#include "task.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

/// One place where tasks can run.
struct Capabilities {
  std::string name;
  std::string kind;  ///< "cpu", "discrete", "integrated", "software", ...
  std::string driver;
  std::uint64_t memory_bytes = 0;     ///< 0 = not known
  std::vector<std::string> features;  ///< names of the device's features
  bool available = true;
  std::string problem;  ///< reason, if not available
  int threads = 0;      ///< of the CPU
  std::string simd;     ///< of the CPU: simd_level()
};

/// The widest vector instructions of this processor that kernels use: "baseline", "avx2" or
/// "avx512".
std::string simd_level();

/// A counter of the device itself: pools, caches.
struct Figure {
  std::string name, help;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
  bool counter = false;
};

/// A device. Members may be called by several threads.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual Capabilities capabilities() const = 0;
  /// Uploads, runs, waits and reads back. Outputs are written only on success of all steps.
  ///
  /// Throws Error{DeviceLost, OutOfDeviceMemory, OutOfHostMemory, Timeout, ShaderCompile,
  /// Unsupported}.
  virtual RunReport run(const DeviceProgram& program) = 0;
  /// Compiles and allocates everything that run() needs. Throws the errors of run().
  virtual void prepare(const DeviceProgram& program) = 0;
  /// Limits the bytes of inputs kept under a key; the least recently used leave first
  /// (HybridOptions::resident_limit, set by Executor::add_device()).
  virtual void limit_resident(std::uint64_t /*bytes*/) {}
  /// Bytes of the program's inputs that are already on the device.
  virtual std::uint64_t resident(const DeviceProgram& /*program*/) const { return 0; }
  /// Bytes available to a task now: without memory of other processes and other uses in this one,
  /// with resident inputs that can be evicted. Nothing if unknown.
  virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
  /// Pools and caches, for telemetry.
  virtual std::vector<Figure> figures() const { return {}; }
  /// Replaces a lost device by a new one. Throws the errors of run() if there is none.
  virtual void reopen() = 0;
};

/// Makes a backend that is never available, for tests and for devices that could not be opened.
std::unique_ptr<DeviceBackend> make_unavailable_backend(std::string name, std::string problem);

/// True for errors of a device, as opposed to mistakes of the caller: the CPU can take over.
bool is_device_failure(ErrorCode code);

/// The error if a task is forced to a device and none is suitable.
Error no_device_error(const TaskShape& task, Reason reason);

}  // namespace topograd::runtime::hybrid
