// Where an operation runs: asked for, where its data was placed, or what the executor decides.
#pragma once

#include "../../runtime/hybrid/executor.hpp"
#include "../../runtime/hybrid/routing/work.hpp"
#include "op_table.hpp"
#include "storage.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace topograd::ops {

using runtime::hybrid::ExecutionStats;
using runtime::hybrid::Work;

/// Taken last by every operation.
struct OpOptions {
  /// Runs there, or throws. Without one: where an input was placed (Array::to); without that too,
  /// on the CPU or on the best device, as the executor decides.
  std::optional<Device> device = {};
  /// How it ran. Measuring waits for the result; without it, device work is only queued.
  ExecutionStats* stats = nullptr;
};

/// An operation with its data and both of its implementations.
struct OpCall {
  Op op = Op::Map;
  ir::Hash128 kernel;      ///< of what runs: another kernel, another history
  std::uint64_t size = 0;  ///< in the unit of the operation's row
  Work work;               ///< for guesses; the same size may be more or less work
  std::span<const std::shared_ptr<Storage>> inputs = {};
  std::span<const std::shared_ptr<Storage>> outputs = {};
  std::function<void()> on_cpu = {};
  /// Queues it. Empty: no device can do it.
  std::function<void(Backend&)> on_device = {};
  /// Why a device cannot, for messages where one was asked for: "expects float64".
  std::string_view device_refusal = {};
  bool needs_float64 = false;  ///< of the device
};

/// Runs an operation: decides, brings the inputs there, runs it, and tells the executor how long it
/// took once that is known. Outputs that run on a device because an input was placed there are
/// placed there as well.
///
/// Where the executor decided for a device that fails, the CPU takes over. Throws what the
/// implementations throw; Error{Unsupported, OutOfDeviceMemory, DeviceLost} of a device that was
/// asked for.
ExecutionStats run(const OpCall& call, const OpOptions& options);

/// How the last operation of this thread ran. Device times are 0 unless it was asked for them.
const ExecutionStats& last_stats();

/// The executor of array and tensor operations, one for the process: decisions, histories,
/// telemetry. Devices are listed on the first operation that is large enough for one.
runtime::hybrid::Executor& executor();

/// What is known of an operation on a device.
struct OpMeasurement {
  double threshold = 0;        ///< size from which it goes to the device, as it has moved
  std::uint64_t measured = 0;  ///< kernels measured on both sides
  double factor = 0;           ///< CPU time over device time, of the largest size measured; 0: none
};
OpMeasurement measured(Op op);

}  // namespace topograd::ops
