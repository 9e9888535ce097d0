// Colour refinement of programs: colours of nodes depend on structure, not on slots.
#pragma once

#include "../program.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ir {

/// Colours leaves by their uses until another round separates no more of them.
///
/// A round is one pass from the leaves to the roots (what a node computes) and one back (how it is
/// used), so facts cross the whole program in one round. Colours do not depend on slots, node order
/// or the order of commutative operands. Cost: O(n) per round, two rounds for most programs.
/// Source: McKay & Piperno, Practical Graph Isomorphism II (2014), for refinement in general.
class Refinement {
 public:
  /// `program` has no dead nodes and outlives this.
  explicit Refinement(const Program& program);

  const Program& program() const { return program_; }
  /// Leaves other than literals, by op and slot.
  std::span<const Id> leaves() const { return leaves_; }
  /// Position of a leaf in leaves().
  std::uint32_t leaf_index(Id id) const { return leaf_index_[id]; }
  /// Length of the longest path down to a leaf.
  std::uint32_t height(Id id) const { return height_[id]; }
  /// Number of nodes, outputs and guards that read the node.
  std::uint32_t uses(Id id) const { return uses_[id]; }

  /// Refines the colours of leaves (initially all equal) and of all nodes.
  void refine(std::vector<std::uint64_t>& leaf_colours);
  /// Colour of a node after refine(): equal for nodes that an automorphism exchanges.
  std::uint64_t colour(Id id) const { return colour_[id]; }
  /// Node visits of all refinements so far, the measure of work.
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

/// Position of an operand; 0 if the operands may be exchanged.
constexpr std::uint32_t operand_position(Op op, std::uint32_t k) {
  return info(op).commutes && k < 2 ? 0 : k;
}

}  // namespace topograd::ir
