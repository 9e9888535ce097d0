// Loops and functions for long programs: computations that differ only in their operands.
#pragma once

#include "program.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::codegen {

/// An operand of all lanes of a group.
struct LaneOperand {
  ir::Id scalar = ir::kNone;         ///< the same node in all lanes; kNone: as follows
  std::uint32_t group = 0;           ///< lane l reads member lanes[l] of this group
  std::vector<std::uint32_t> lanes;  ///< by lane
  bool same_lane = false;            ///< lanes[l] = l, and the groups have as many lanes
};

/// Nodes of one op whose operands are, one by one, nodes of the same groups or the same node.
struct LaneGroup {
  std::vector<ir::Id> members;  ///< by lane
  std::array<LaneOperand, 3> operands;
  ir::Node first;        ///< members[0], its operands in the order of `operands`
  bool computes = true;  ///< by a loop or calls; false: its members are statements of their own
  bool calls = false;    ///< by a function that is called for each lane, not by a loop
  bool boolean = false;
  bool returned = false;   ///< of such a function: it is read outside
  bool stored = false;     ///< in an array: loops read it, or it is read outside its own loop
  std::uint32_t base = 0;  ///< index of lane 0 in that array
  std::string array;       ///< leaves that lie in an array of this name already, ...
  std::vector<std::uint32_t> indices;  ///< ... at these indices
};

/// A statement, the copies of a group's members to its array, or the lanes of groups: a loop, or a
/// function and its calls.
struct RollStep {
  ir::Id scalar = ir::kNone;
  std::vector<std::uint32_t> groups;
  bool apart = false;  ///< each lane is written as statements: a function would hardly be shorter
};

/// A program as statements and loops. Its values have the bits of write_program()'s statements.
struct Roll {
  std::vector<LaneGroup> groups;
  std::vector<RollStep> steps;  ///< all of them, or those that do not depend on a tangent, ...
  std::vector<RollStep> along;  ///< ... and those that do
  std::uint32_t numbers = 0;    ///< size of the array of numbers
  std::uint32_t flags = 0;      ///< size of the array of conditions
  std::size_t statements = 0;   ///< about as many; a loop counts as several
};

/// Finds loops. None for a program of few operations, or where loops would hardly shorten it.
///
/// Up to 16 lanes are calls of one function, more are a loop.
///
/// Two nodes can be lanes of one loop if they have the same op and operands that can, down to the
/// leaves: the triangles of a star, the terms of a sum over data, the rows of a matrix. Parameters
/// of the same `coordinate` are equal leaves, literals of the same value, and all data.
///
///   coordinate  by parameter slot
///   names       of the leaves, as the program will read them
///   apart       what does not depend on a tangent comes first
///
/// Cost: a little more than linear in the number of nodes.
std::optional<Roll> find_roll(const Prepared& prepared, std::span<const std::uint32_t> coordinate,
                              const LeafNames& names, bool apart);

}  // namespace topograd::codegen
