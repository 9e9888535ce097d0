// Scopes of a thread, in which operations run on another device or are recorded.
#include "scope.hpp"

#include <utility>

namespace topograd::ops {
namespace {

thread_local std::optional<Device> device_of_scope;
thread_local RecordOperations* innermost = nullptr;

}  // namespace

OnDevice::OnDevice(Device device) : before_(std::exchange(device_of_scope, std::move(device))) {}
OnDevice::~OnDevice() { device_of_scope = std::move(before_); }

RecordOperations::RecordOperations() : before_(std::exchange(innermost, this)) {}
RecordOperations::~RecordOperations() { innermost = before_; }

const std::optional<Device>& scope_device() { return device_of_scope; }
RecordOperations* recording() { return innermost; }

}  // namespace topograd::ops
