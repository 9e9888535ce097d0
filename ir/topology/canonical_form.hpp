// Numbering of a coloured program: the canonical program, or the leaves that are still tied.
#pragma once

#include "refinement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ir {

/// A program renumbered by structure, and which leaf of the source each of its leaves is.
struct CanonicalForm {
  Program program;
  std::vector<std::uint32_t> leaves;  ///< positions in Refinement::leaves(), in order of numbering
};

/// Reads the colours of the last Refinement::refine() and numbers nodes in the order of a walk from
/// the outputs, operands of commutative ops by height, op, choice and colour.
///
/// Where two such operands have one colour, their order does not matter if each is a tree of its
/// own (exchanging them changes nothing); then the one with the lowest slot goes first. Other ties
/// are open: they are what choices are made for.
class Numbering {
 public:
  /// `chosen`: leaves that were told apart from their class, in order of the choices.
  Numbering(const Refinement& refinement, std::span<const std::uint64_t> leaf_colours,
            std::span<const std::uint32_t> chosen);

  /// No tie is open: form() is the same for all programs that differ in names and order alone.
  bool complete() const { return complete_; }
  /// The smallest class of leaves below an open tie, ascending; empty if complete.
  std::vector<std::uint32_t> open_class() const;
  /// Open ties are broken by slots.
  CanonicalForm form() const;

 private:
  void find_classes(std::span<const std::uint64_t> leaf_colours);
  void gather(std::span<const std::uint32_t> chosen);
  void find_ties();
  void note_tie(Id a, Id b);
  bool is_free_tree(Id id) const;
  bool before(Id a, Id b) const;
  std::vector<Guard> ordered_guards() const;

  struct NodeFacts {
    std::uint32_t lowest_leaf = kNone;    // position in leaves()
    std::uint32_t lowest_choice = kNone;  // position in `chosen`
    bool fixed = true;                    // no automorphism moves it
    bool tree = true;                     // what is not fixed below it has no other user
  };

  const Refinement& refinement_;
  const Program& program_;
  std::vector<std::uint32_t> by_colour_;  // leaves, by colour and then position
  std::vector<std::size_t> class_start_;  // in by_colour_, and its end
  std::vector<NodeFacts> facts_;
  std::vector<bool> open_;  // nodes of open ties
  bool complete_ = true;
};

/// Slots by leaf space in the order of the form's numbering.
std::vector<std::uint32_t> source_slots(const CanonicalForm& form, const Refinement& refinement,
                                        Op space);

}  // namespace topograd::ir
