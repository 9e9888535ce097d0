// Scopes of a thread: while one lives, operations run elsewhere, or are recorded.
#pragma once

#include "run.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace topograd::ops {

/// While it lives, operations of this thread that are told no device run on this one, wherever
/// their inputs were placed; results are placed where they would have been. They throw where the
/// device cannot do them. The innermost one counts.
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

/// An operation, its size in the unit of its row, and how it ran.
struct RanOperation {
  Op op = Op::Map;
  std::uint64_t size = 0;
  ExecutionStats stats;
  runtime::hybrid::Features features;  ///< of an item, as guesses see it
};

/// Records each operation that this thread runs while it lives, those of tensors among them, which
/// run when they are read or evaluated. Measuring waits for every one of them. The innermost
/// recording counts.
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

/// The device and the record of this thread's innermost scopes; empty and null outside of any.
const std::optional<Device>& scope_device();
RecordOperations* recording();

}  // namespace topograd::ops
