// Colour refinement of programs: nodes get colours by their structure, whatever their slots are
// called.
#pragma once

#include "../program.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ir {

/// Colours leaves by how they are used, until no further round tells more of them apart.
///
/// A round is one pass from the leaves to the roots (what a node computes) and one back (what
/// becomes of it), so that facts cross the whole program in one round. Colours do not depend on
/// slots, node order or the order of commutative operands. Cost: O(n) a round, two rounds for most
/// programs. Source: McKay & Piperno, Practical Graph Isomorphism II (2014), for refinement as
/// such.
class Refinement {
 public:
  /// `program` has no dead nodes and outlives this.
  explicit Refinement(const Program& program);

  const Program& program() const { return program_; }
  /// Leaves that are no literals, by op and slot.
  std::span<const Id> leaves() const { return leaves_; }
  /// Position in leaves() of a node that is one of them.
  std::uint32_t leaf_index(Id id) const { return leaf_index_[id]; }
  /// Longest way down to a leaf.
  std::uint32_t height(Id id) const { return height_[id]; }
  /// Number of nodes, outputs and guards that read the node.
  std::uint32_t uses(Id id) const { return uses_[id]; }

  /// Refines the colours of leaves (all equal at first), and with them those of all nodes.
  void refine(std::vector<std::uint64_t>& leaf_colours);
  /// Colour of a node after refine(): equal for nodes that an automorphism exchanges.
  std::uint64_t colour(Id id) const { return colour_[id]; }
  /// Node visits of all refinements so far: the measure of work.
  std::uint64_t visits() const { return visits_; }

 private:
  void colour_upwards(const std::vector<std::uint64_t>& leaf_colours);
  void colour_downwards();

  const Program& program_;
  std::vector<Id> leaves_;
  std::vector<std::uint32_t> leaf_index_, height_, uses_;
  std::vector<std::uint64_t> up_, colour_;
  std::vector<std::uint64_t> sorted_;
  std::uint64_t visits_ = 0;
};

/// Positions of operands that are told apart: 0 and 0 where they may change places.
constexpr std::uint32_t operand_position(Op op, std::uint32_t k) {
  return info(op).commutes && k < 2 ? 0 : k;
}

}  // namespace topograd::ir
