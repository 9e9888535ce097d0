// Search that breaks ties of colours: tries the leaves of a class, with a bound on the work.
#pragma once

#include "../graph.hpp"
#include "canonical_form.hpp"
#include "refinement.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace topograd::ir {

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
