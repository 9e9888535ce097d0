// Traits of a node's value, found without evaluation: whether it can be infinite or is a mask.
#pragma once

#include "../ir/program.hpp"

#include <cstdint>
#include <span>

namespace topograd::autodiff {

/// How a value can become infinite or NaN, given finite parameters, tangents and seeds. Ascending.
enum class Grade : std::uint8_t {
  Constant,  ///< a finite literal
  Tame,      ///< affine in parameters or bounded: finite if they are
  Plain,     ///< finite unless it overflows, reads non-finite data, or leaves an op's domain
  Wild       ///< may be infinite at ordinary points: quotients, exponentials, logarithms
};

/// Decides where a derivative product needs the zero rule (rules.hpp).
struct Traits {
  Grade grade = Grade::Wild;
  bool masked = false;       ///< may be exactly 0 because of a select, a comparison, a sign
  bool nonnegative = false;  ///< >= 0 or NaN
  bool away = false;         ///< magnitude at least some positive constant, or NaN
};

/// Traits of a node from those of its operands (none for leaves). Unknown ops are Wild.
Traits infer(const ir::Node& node, std::span<const Traits> operands);

}  // namespace topograd::autodiff
