// Runs operations on a backend, also on another device for a scope of a thread, or records them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../runtime/hybrid/executor.hpp"
#include "../../runtime/hybrid/routing/decision.hpp"
#include "storage.hpp"

namespace topograd::ops {

/// The rows of operations.def.
enum class Operation : std::uint8_t {
#define TG_OPERATION(id, ...) id,
#include "operations.def"
};

/// One row of the table.
struct OperationRow {
  Operation operation;
  std::string_view name;      ///< used in options, histories and reports
  std::uint64_t minimum = 0;  ///< size below which it stays on the CPU, until measured
  double factor = 1;          ///< assumed CPU time over device time, until measured
  std::string_view unit;      ///< unit of a size
};

inline constexpr OperationRow kOperations[] = {
#define TG_OPERATION(id, ...) OperationRow{.operation = Operation::id, __VA_ARGS__},
#include "operations.def"
};

constexpr const OperationRow& row(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}
constexpr std::string_view name(Operation operation) { return row(operation).name; }

using runtime::hybrid::ExecutionStats;
using runtime::hybrid::Work;

/// Options that every operation accepts as its last argument.
struct OpOptions {
  /// Runs on this device, or throws. If empty: where an input was placed (Array::to); otherwise on
  /// the CPU or the best device, as the executor decides.
  std::optional<Device> device = {};
  /// Receives statistics. Measuring waits for the result; without it, device work is only queued.
  ExecutionStats* stats = nullptr;
  /// Runs each operation on a device and on the CPU, and throws Error{Internal} if a result differs
  /// by more than the tolerance of its type (runtime::hybrid::tolerance_of()). The device is that
  /// of `device`, of a scope or of the inputs, or else the best one, also a software device;
  /// Error{NoDevice} if there is none. Results are those of the CPU. An operation that the device
  /// does not support runs on the CPU alone: `stats->checked` is then 0. For debugging: it waits.
  bool cross_check = false;
  /// Receives the first elements of the operands and results of each operation, and the values of
  /// each node of an expression there, as the evaluator computes them. For debugging: it waits.
  std::ostream* values = nullptr;
};

/// An operation with its data and its two implementations.
struct OpCall {
  Operation op = Operation::Map;
  ir::Hash128 kernel;      ///< hash of the kernel: each kernel has its own history
  std::uint64_t size = 0;  ///< in the unit of the operation's row
  Work work;               ///< for guesses; differs between calls of one size
  std::vector<std::shared_ptr<Storage>> inputs = {}, outputs = {};
  std::function<void()> on_cpu = {};
  /// Queues the operation. Empty: devices do not support it.
  std::function<void(OpBackend&)> on_device = {};
  /// The reason why devices cannot run it, for messages: "expects float64".
  std::string_view device_refusal = {};
  bool needs_float64 = false;  ///< true if devices need float64
  /// For an expression: lines with the values of its nodes at the first elements (inspection.hpp).
  std::function<std::string(std::size_t most)> nodes = {};
};

/// Runs an operation: decides, copies the inputs there, runs it, and reports its time to the
/// executor once it is known. If it runs on a device because an input was placed there, its outputs
/// are placed there, too.
///
/// If a device chosen by the executor fails, the CPU runs the operation. Throws what the
/// implementations throw; Error{Unsupported, OutOfDeviceMemory, DeviceLost} for a requested device.
ExecutionStats run(const OpCall& call, const OpOptions& options);

/// Statistics of the last operation of this thread. Device times are 0 unless it measured them.
const ExecutionStats& last_stats();

/// The process's executor of array and tensor operations: decisions, histories, telemetry. Lists
/// the devices at the first operation that is large enough for one.
runtime::hybrid::Executor& executor();

/// Measurements of an operation on a device.
struct OpMeasurement {
  double threshold = 0;        ///< present size from which it runs on the device
  std::uint64_t measured = 0;  ///< kernels measured on both backends
  double factor = 0;           ///< CPU time over device time at the largest measured size; 0: none
};
OpMeasurement measured(Operation op);

/// While it lives, runs of this thread are not recorded: they may use fewer threads than usual.
class UnrecordedRuns {
 public:
  UnrecordedRuns() { ++living_; }
  ~UnrecordedRuns() { --living_; }
  UnrecordedRuns(const UnrecordedRuns&) = delete;
  UnrecordedRuns& operator=(const UnrecordedRuns&) = delete;

  static bool any() { return living_ > 0; }

 private:
  inline static thread_local int living_ = 0;
};

/// While it lives, operations of this thread without a device in their options run on this device,
/// wherever their inputs were placed; the placement of their results is unchanged. They throw if
/// the device does not support them. The innermost scope is used.
///
///   { const OnDevice scope(Device::cpu()); reference = matmul(a, b).evaluate(); }
class OnDevice {
 public:
  explicit OnDevice(Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  std::optional<Device> before_;
};

/// An operation, its size in the unit of its row, and statistics of its run.
struct RanOperation {
  Operation op = Operation::Map;
  std::uint64_t size = 0;
  ExecutionStats stats;
  runtime::hybrid::Features features;  ///< per item, as used for guesses
};

/// While it lives, records each operation that this thread runs, including those of tensors, which
/// run when they are read or evaluated. Measuring waits for each operation. Only the innermost
/// scope records.
class RecordOperations {
 public:
  RecordOperations();
  ~RecordOperations();
  RecordOperations(const RecordOperations&) = delete;
  RecordOperations& operator=(const RecordOperations&) = delete;

  const std::vector<RanOperation>& all() const { return all_; }
  void add(RanOperation ran) { all_.push_back(std::move(ran)); }

 private:
  RecordOperations* before_;
  std::vector<RanOperation> all_;
};

/// The device and the record of this thread's innermost scopes; empty and null outside of scopes.
const std::optional<Device>& scope_device();
RecordOperations* recording();

}  // namespace topograd::ops
