// Devices as the hybrid executor sees them, and their list by the scheduler's targets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../backend.hpp"
#include "routing/scheduler.hpp"
#include "task.hpp"

namespace topograd::runtime::hybrid {

/// The facts that the scheduler has of a device on which tasks can run.
using Capabilities = DeviceFacts;

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

/// A device that is reopened before its next task if it was lost. Thread-safe.
class ExecutorDevice {
 public:
  ///   name  different from those of other devices
  ExecutorDevice(std::unique_ptr<DeviceBackend> backend, const Capabilities& capabilities,
                 std::string name);

  const std::string& name() const { return name_; }
  bool available() const { return available_; }
  /// Empty if the device is not available.
  const std::string& driver() const { return driver_; }
  DeviceBackend& backend() const { return *backend_; }
  /// Reopens the device if it was lost. Throws the errors of DeviceBackend::reopen().
  DeviceBackend& ready();
  void lose() { lost_ = true; }

 private:
  const std::unique_ptr<DeviceBackend> backend_;
  const bool available_;
  const std::string name_, driver_;
  std::atomic<bool> lost_{false};
  std::mutex reopening_;
};

/// Devices are added and never removed, so that references to them stay. Thread-safe.
class DeviceList {
 public:
  /// Adds a device to the list and to the scheduler, and returns its target in both. The second
  /// device of a name gets the name with " #2".
  std::size_t add(std::unique_ptr<DeviceBackend> backend, const Capabilities& capabilities,
                  Scheduler& scheduler);

  /// Target from 1 on.
  ExecutorDevice& at(std::size_t target) const;
  /// In the order of targets.
  std::vector<ExecutorDevice*> all() const;
  /// Target of the device with this name, or kCpu.
  std::size_t find(std::string_view name) const;
  /// "cpu" or the device's name.
  const std::string& name_of(std::size_t target) const;

 private:
  mutable std::mutex mutex_;
  mutable std::deque<ExecutorDevice> devices_;  // target k is devices_[k - 1]
};

}  // namespace topograd::runtime::hybrid
