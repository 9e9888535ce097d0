// Devices on which arrays are stored and operations run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../runtime/backend.hpp"

namespace topograd::ops {

class OpBackend;

using runtime::DeviceFacts;

/// A device. Cheap to copy; equal handles are the same device. Thread-safe.
class Device {
 public:
  /// The CPU.
  Device();
  explicit Device(std::shared_ptr<OpBackend> backend) : backend_(std::move(backend)) {}

  static Device cpu() { return Device(); }
  /// A Vulkan device, opened on the first call and kept until the process ends.
  ///
  ///   which  index (decimal) or part of a name, any case; empty: TOPOGRAD_DEVICE, else the best
  ///
  /// Throws Error{NoLoader, NoDriver, NoDevice, Unsupported} if there is none.
  static Device vulkan(std::string_view which = {});
  static Device vulkan(int index) { return vulkan(std::to_string(index)); }
  /// The Vulkan device that TOPOGRAD_DEVICE names, or a hardware device; the CPU if there is none.
  /// Never throws for a missing device.
  static Device best();

  const DeviceFacts& facts() const;
  const std::string& name() const { return facts().name; }
  bool is_cpu() const;
  /// Waits until all queued work has finished.
  ///
  /// Throws Error{Timeout} without progress, Error{DeviceLost}.
  void synchronise() const;

  OpBackend& backend() const { return *backend_; }
  const std::shared_ptr<OpBackend>& shared_backend() const { return backend_; }

  friend bool operator==(const Device& a, const Device& b) { return a.backend_ == b.backend_; }

 private:
  std::shared_ptr<OpBackend> backend_;
};

/// The CPU, then every Vulkan device that can be opened; does not open any.
std::vector<DeviceFacts> list_devices();

}  // namespace topograd::ops
