// The devices of an executor, by the scheduler's targets.
#pragma once

#include "backend.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime::hybrid {

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
