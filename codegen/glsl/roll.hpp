// Loops for long programs: computations that differ only in their operands.
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
  bool computes = true;  ///< by a loop; false: its members are statements of their own
  bool boolean = false;
  bool stored = false;     ///< in an array: it is read outside its loop, or by other lanes
  std::uint32_t base = 0;  ///< index of lane 0 in that array
  std::string array;       ///< leaves that lie in an array of this name already, ...
  std::vector<std::uint32_t> indices;  ///< ... at these indices
};

/// A statement, the copies of a group's members to its array, or a loop over the lanes of groups.
struct RollStep {
  ir::Id scalar = ir::kNone;
  std::vector<std::uint32_t> groups;
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
