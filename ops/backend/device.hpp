// Where arrays live and operations run: handles that users pass around.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops {

class Backend;

/// What a device says of itself.
struct DeviceFacts {
  std::string name;                ///< "cpu", or the driver's name for it
  std::string kind;                ///< "cpu", "discrete", "integrated", "virtual", "software"
  std::uint64_t memory_bytes = 0;  ///< that this process may use; 0 = not known
  bool float64 = true;             ///< f64 arrays can be worked on
  bool unified = false;            ///< its memory is read and written by the host without a copy
};

/// A device. Cheap to copy; equal handles are the same device. Any thread may use it.
class Device {
 public:
  /// The CPU.
  Device();
  explicit Device(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  static Device cpu() { return Device(); }
  /// A Vulkan device, opened on the first call and kept until the process ends.
  ///
  ///   which  index (decimal) or part of a name, any case; empty: TOPOGRAD_DEVICE, else the best
  ///
  /// Throws Error{NoLoader, NoDriver, NoDevice, Unsupported} if there is none.
  static Device vulkan(std::string_view which = {});
  static Device vulkan(int index) { return vulkan(std::to_string(index)); }
  /// The Vulkan device that TOPOGRAD_DEVICE names or that is no software; the CPU without one.
  /// Never throws for a device that is not there.
  static Device best();

  const DeviceFacts& facts() const;
  const std::string& name() const { return facts().name; }
  bool is_cpu() const;
  /// Waits until everything that was queued has finished.
  ///
  /// Throws Error{Timeout} without progress, Error{DeviceLost}.
  void synchronise() const;

  Backend& backend() const { return *backend_; }
  const std::shared_ptr<Backend>& shared_backend() const { return backend_; }

  friend bool operator==(const Device& a, const Device& b) { return a.backend_ == b.backend_; }

 private:
  std::shared_ptr<Backend> backend_;
};

/// The CPU first, then every Vulkan device that can be opened; opens none.
std::vector<DeviceFacts> list_devices();

}  // namespace topograd::ops
