// Lowering of programs to instructions on tiles, with few tiles in use at a time.
#pragma once

#include "../../../ir/program.hpp"
#include "../tiles/tile_ops.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// Place of an operand: constants are numbered first, then columns, then registers.
using Place = std::uint32_t;

struct Instruction {
  enum class Action : std::uint8_t {
    Apply,  ///< out = op(a, b, c)
    Both,   ///< out = pair(a, b, c)
    Load,   ///< out = gathered leaf number a
    Store   ///< output number out = a
  };
  static constexpr std::uint32_t kNoOutput = ~std::uint32_t{0};

  Action action = Action::Apply;
  ir::Op op = ir::Op::Literal;
  Pair pair = Pair::AddAdd;
  std::uint32_t out = 0;
  Place a = 0, b = 0, c = 0;
  /// Number of the output that the result of Apply or Both is, if nothing else reads it.
  std::uint32_t output = kNoOutput;
};

/// A leaf that instructions load (an index column selects from a vector) or read in place (a
/// column).
struct LeafUse {
  ir::Op op = ir::Op::Data;
  std::uint32_t slot = 0;
  friend bool operator==(const LeafUse&, const LeafUse&) = default;
};

/// A program as instructions on tiles.
struct TileProgram {
  std::vector<Instruction> instructions;
  std::vector<double> literals;  ///< first places: tiles of equal numbers
  std::vector<LeafUse> columns;  ///< next places: Data and Seed leaves, read in place
  std::uint32_t registers = 0;   ///< last places: tiles of the worker
  std::vector<LeafUse> gathers;  ///< loaded: Parameter, Tangent and Uniform leaves
  std::uint32_t outputs = 0;

  Place first_column() const { return static_cast<Place>(literals.size()); }
  Place first_register() const { return static_cast<Place>(literals.size() + columns.size()); }
  Place places() const { return first_register() + registers; }
};

/// Lowers a program: expands composite ops, schedules nodes and drops dead ones. An op whose value
/// only one other op reads is fused with it into one instruction if such a pair exists.
///
/// A register is free after the last read of its value. A leaf is loaded right before its first
/// use. Cost: linear in nodes.
TileProgram lower(const ir::Program& program);

}  // namespace topograd::runtime::cpu
