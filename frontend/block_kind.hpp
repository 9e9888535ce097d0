// The kinds of blocks that a problem has: residuals, energies and constraints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace topograd {

/// The part that the numbers of a block have in the problem.
enum class BlockKind : std::uint8_t {
  residual,    ///< half their squares, or a loss of them, are part of the objective
  energy,      ///< the number is part of the objective
  equality,    ///< they must be 0
  inequality,  ///< they must not be negative
};
inline constexpr std::size_t kBlockKinds = 4;

constexpr bool is_constraint(BlockKind kind) {
  return kind == BlockKind::equality || kind == BlockKind::inequality;
}
/// For messages: "residual", "energy" or "constraint".
constexpr std::string_view noun(BlockKind kind) {
  return is_constraint(kind) ? "constraint" : kind == BlockKind::energy ? "energy" : "residual";
}
/// The call that adds one block of a kind, and the one that adds a block for each element.
constexpr const char* add_call(BlockKind kind, bool map = false) {
  switch (kind) {
    case BlockKind::residual: return map ? "add_residuals" : "add_residual";
    case BlockKind::energy: return map ? "add_energies" : "add_energy";
    case BlockKind::equality: return map ? "add_equalities" : "add_equality";
    case BlockKind::inequality: return map ? "add_inequalities" : "add_inequality";
  }
  return "";
}

}  // namespace topograd
