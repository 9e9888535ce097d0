// Ops of the expression graph and their properties, generated from ops.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace topograd::ir {

enum class Op : std::uint8_t {
#define TG_OP(id, ...) id,
#include "ops.def"
#undef TG_OP
};

/// Interval on which an op's (first) operand gives a finite real result.
struct Domain {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;
  bool max_open = false;
};

/// One row of the op table.
struct OpInfo {
  Op op;
  std::string_view name;           ///< in the text form
  int arity = 0;                   ///< number of operands, 0 to 3
  bool commutes = false;           ///< first two operands may be exchanged, bit for bit
  bool leaf = false;               ///< reads an input instead of operands
  bool boolean = false;            ///< yields 1 or 0; a shader may hold it as bool
  bool logical = false;            ///< takes its operands as truth values
  bool composite = false;          ///< written with other ops by the expand pass
  Domain domain = {};              ///< of the first operand
  std::string_view spelling = {};  ///< GLSL expression, operands as {0} {1} {2}, type as {T}
  std::string_view function = {};  ///< function of the GLSL library, if there is no spelling
  // Largest error of any backend in units in the last place; 0: the evaluator's bits (a NaN is a
  // NaN). The error of composite ops is that of their parts.
  double ulp_f32 = 0;
  double ulp_f64 = 0;
  bool rounds_product = false;  ///< a device may round the product before it adds
  bool steps = false;           ///< piecewise constant, or jumps where another op would round
};

inline constexpr OpInfo kOps[] = {
#define TG_OP(id, value, ...) OpInfo{.op = Op::id, __VA_ARGS__},
#include "ops.def"
#undef TG_OP
};
inline constexpr std::size_t kOpCount = sizeof(kOps) / sizeof(kOps[0]);

constexpr const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }
constexpr int arity(Op op) { return info(op).arity; }
constexpr bool is_leaf(Op op) { return info(op).leaf; }

/// The op of that name in the text form, or nothing.
std::optional<Op> find_op(std::string_view name);

}  // namespace topograd::ir
