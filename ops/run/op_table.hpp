// The table of operations: names, and initial guesses of the sizes worth a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace topograd::ops {

enum class Op : std::uint8_t {
#define TG_ARRAY_OP(id, ...) id,
#include "ops.def"
#undef TG_ARRAY_OP
};

/// One row of the table.
struct OpRow {
  Op op;
  std::string_view name;      ///< used in options, histories and reports
  std::uint64_t minimum = 0;  ///< size below which it stays on the CPU, until measured
  double factor = 1;          ///< assumed CPU time over device time, until measured
  std::string_view unit;      ///< unit of a size
};

inline constexpr OpRow kOpTable[] = {
#define TG_ARRAY_OP(id, ...) OpRow{.op = Op::id, __VA_ARGS__},
#include "ops.def"
#undef TG_ARRAY_OP
};
inline constexpr std::size_t kOps = sizeof(kOpTable) / sizeof(kOpTable[0]);

constexpr const OpRow& row(Op op) { return kOpTable[static_cast<std::size_t>(op)]; }
constexpr std::string_view name(Op op) { return row(op).name; }

}  // namespace topograd::ops
