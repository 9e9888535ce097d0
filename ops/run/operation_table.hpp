// The table of operations: names, and initial guesses of the sizes worth a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace topograd::ops {

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

}  // namespace topograd::ops
