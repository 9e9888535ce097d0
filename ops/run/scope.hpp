// Scopes of a thread, in which operations run on another device or are recorded.
#pragma once

#include "run.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace topograd::ops {

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
