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

/// How a value can become infinite or NaN if the parameters are finite (autodiff/rules.hpp).
enum class Growth : std::uint8_t {
  affine,      ///< finite if its operands are
  smooth,      ///< finite unless it overflows, reads numbers that are not, or leaves its domain
  bounded,     ///< bounded, but for a NaN
  in_domain,   ///< bounded within its domain
  product,     ///< the product of its operands
  quotient,    ///< infinite where the second operand is zero
  reciprocal,  ///< infinite where the operand is zero
  power,       ///< smooth if the exponent is constant and not negative
  choice,      ///< the second operand or the third
  truth,       ///< 1 or 0
  wild         ///< may be infinite at ordinary points; always safe to say
};

/// Derives facts of a value from those of its operands (passes/simplify.hpp).
enum class FactRule : std::uint8_t {
  none,        ///< nothing, unless the op is boolean
  clear,       ///< the sign bit is clear
  magnitude,   ///< clear, and an integer if the operand is
  whole,       ///< an integer with the operand's sign
  negation,    ///< an integer if the operand is
  root,        ///< the operand's sign, which is that of a zero
  odd,         ///< the operand's sign
  sum,         ///< clear if both operands are
  difference,  ///< no -0 if the first operand is none
  product,     ///< clear if all operands are
  minimum,     ///< what both operands are
  maximum,     ///< what both operands are, and clear if one of them is
  choice       ///< what the second and the third operand are
};

/// Tells where a value's magnitude stays above some positive constant.
enum class Away : std::uint8_t {
  unknown,
  always,
  first,  ///< where the first operand's does
  sum     ///< where both operands are nonnegative and the magnitude of one of them does
};

/// Bits of OpInfo::masked_by.
inline constexpr std::uint8_t kFirst = 1, kSecond = 2, kThird = 4, kAlways = 8;

/// A member that no row may leave out: there is no default.
template <class T>
class Required {
 public:
  constexpr Required(T value) : value_(value) {}   // NOLINT(google-explicit-constructor)
  constexpr operator T() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  T value_;
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
  Required<Growth> growth;
  FactRule facts = FactRule::none;
  /// Operands whose zeros by a choice or a comparison may be the value's, as bits; kAlways: it has
  /// such zeros itself, as boolean ops have.
  std::uint8_t masked_by = 0;
  Away away = Away::unknown;
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
