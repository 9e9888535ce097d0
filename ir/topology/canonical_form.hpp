// Numbering of a coloured program: the canonical program, or the leaves that are still tied.
#pragma once

#include "refinement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ir {

/// A program renumbered by structure, with the source of each of its leaves.
struct CanonicalForm {
  Program program;
  std::vector<std::uint32_t> leaves;  ///< positions in Refinement::leaves(), in order of numbering
};

/// Reads the colours of the last Refinement::refine() and numbers nodes in the order of a walk from
/// the outputs, operands of commutative ops by height, op, choice and colour.
///
/// If two such operands have one colour, their order does not matter if each is a tree of its own
/// (exchanging them changes nothing); then the one with the lowest slot comes first. Other ties are
/// open; choices break them.
class Numbering {
 public:
  /// `chosen`: leaves that were separated from their class, in order of the choices.
  Numbering(const Refinement& refinement, std::span<const std::uint64_t> leaf_colours,
            std::span<const std::uint32_t> chosen);

  /// True if no tie is open: form() then does not depend on names and order.
  bool complete() const { return complete_; }
  /// The smallest class of leaves below an open tie, ascending; empty if complete.
  std::vector<std::uint32_t> open_class() const;
  /// The form; slots break open ties.
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
    bool tree = true;                     // its part that is not fixed has no other user
  };

  const Refinement& refinement_;
  const Program& program_;
  std::vector<std::uint32_t> by_colour_;  // leaves, by colour and then position
  std::vector<std::size_t> class_start_;  // in by_colour_, and its end
  std::vector<NodeFacts> facts_;
  std::vector<bool> open_;  // nodes of open ties
  bool complete_ = true;
};

/// Slots by leaf space, in the order of the form's numbering.
std::vector<std::uint32_t> source_slots(const CanonicalForm& form, const Refinement& refinement,
                                        Op space);

}  // namespace topograd::ir
