// The canonical form of a program: colours of nodes, their numbering, a search that breaks ties.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../program.hpp"

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

/// Finds the least form of a program over all ways to break its ties.
///
/// A tied class is broken by choosing one of its leaves and refining again. The first path takes
/// the lowest leaf each time. Other leaves of a class are tried only if no known automorphism maps
/// a leaf already tried to them. Automorphisms come from paths with equal forms and from guesses
/// that are checked. Source: McKay & Piperno, Practical Graph Isomorphism II (2014), pruned by the
/// group of the first path alone.
class CanonicalSearch {
 public:
  explicit CanonicalSearch(Refinement& refinement);

  const CanonicalForm& run();
  /// True if every path was tried or is known to be equal to one that was.
  bool exact() const { return exact_; }

 private:
  struct State {
    std::vector<std::uint64_t> colours;
    std::vector<std::uint32_t> chosen;
  };
  struct Level {
    State state;  // refined
    std::vector<std::uint32_t> tied;
    std::vector<std::uint64_t> first_colours;  // refined, after the choice of tied[0]
  };

  void walk_first_way();
  void try_others(const Level& level);
  void explore(State start);
  State choose(const State& state, std::uint32_t leaf) const;
  Numbering settle(State& state);
  bool out_of_work();
  bool guess_automorphism(const Level& level, const State& other);
  bool is_automorphism(const std::vector<std::uint32_t>& image);
  void unite(const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to);
  std::uint32_t orbit(std::uint32_t leaf);

  Refinement& refinement_;
  std::vector<Level> levels_;
  CanonicalForm first_;
  std::optional<CanonicalForm> better_;  // than first_
  std::vector<std::uint32_t> orbit_;     // union-find over leaves
  std::optional<Graph> nodes_;           // of the program, for look-up
  bool exact_ = true;
};

}  // namespace topograd::ir
