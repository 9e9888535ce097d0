// Canonical programs by refinement and search, their hashes, and how two topologies differ.
#include "topology.hpp"

#include "../error.hpp"
#include "../hash.hpp"
#include "../passes/passes.hpp"
#include "../passes/rewrite.hpp"
#include "../program.hpp"
#include "../text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace topograd::ir {
namespace {

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

Numbering::Numbering(const Refinement& refinement, std::span<const std::uint64_t> leaf_colours,
                     std::span<const std::uint32_t> chosen)
    : refinement_(refinement), program_(refinement.program()), facts_(program_.nodes.size()) {
  find_classes(leaf_colours);
  // If all leaves differ, all nodes do.
  const bool all_differ = class_start_.size() == leaf_colours.size() + 1;
  if (!all_differ || !chosen.empty()) gather(chosen);
  if (!all_differ) find_ties();
}

void Numbering::find_classes(std::span<const std::uint64_t> leaf_colours) {
  by_colour_.resize(leaf_colours.size());
  std::iota(by_colour_.begin(), by_colour_.end(), 0u);
  std::sort(by_colour_.begin(), by_colour_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(leaf_colours[a], a) < std::tie(leaf_colours[b], b);
  });
  for (std::size_t k = 0; k < by_colour_.size(); ++k) {
    const bool first = k == 0 || leaf_colours[by_colour_[k]] != leaf_colours[by_colour_[k - 1]];
    if (first) class_start_.push_back(k);
  }
  class_start_.push_back(by_colour_.size());
}

void Numbering::gather(std::span<const std::uint32_t> chosen) {
  for (std::uint32_t k = 0; k < refinement_.leaves().size(); ++k) {
    facts_[refinement_.leaves()[k]] = {.lowest_leaf = k, .fixed = false};
  }
  for (std::size_t c = 0; c + 1 < class_start_.size(); ++c) {
    const std::size_t first = class_start_[c];
    if (class_start_[c + 1] - first == 1)
      facts_[refinement_.leaves()[by_colour_[first]]].fixed = true;
  }
  for (std::uint32_t k = 0; k < chosen.size(); ++k) {
    facts_[refinement_.leaves()[chosen[k]]].lowest_choice = k;
  }
  for (Id id = 0; id < program_.nodes.size(); ++id) {
    for (Id operand : program_.nodes[id].operands()) {
      const NodeFacts& below = facts_[operand];
      NodeFacts& f = facts_[id];
      f.lowest_leaf = std::min(f.lowest_leaf, below.lowest_leaf);
      f.lowest_choice = std::min(f.lowest_choice, below.lowest_choice);
      f.fixed = f.fixed && below.fixed;
      f.tree = f.tree && (below.fixed || is_free_tree(operand));
    }
  }
}

bool Numbering::is_free_tree(Id id) const { return facts_[id].tree && refinement_.uses(id) == 1; }

void Numbering::note_tie(Id a, Id b) {
  if (a == b || refinement_.colour(a) != refinement_.colour(b)) return;
  if (is_free_tree(a) && is_free_tree(b)) return;
  complete_ = false;
  open_[a] = open_[b] = true;
}

void Numbering::find_ties() {
  open_.assign(program_.nodes.size(), false);
  for (const Node& node : program_.nodes) {
    if (info(node.op).commutes) note_tie(node.args[0], node.args[1]);
  }
  const std::vector<Guard> guards = ordered_guards();
  for (std::size_t k = 1; k < guards.size(); ++k) {
    if (guards[k].expected == guards[k - 1].expected) {
      note_tie(guards[k].condition, guards[k - 1].condition);
    }
  }
}

std::vector<std::uint32_t> Numbering::open_class() const {
  if (complete_) return {};
  std::vector<bool> open = open_;
  for (Id id = static_cast<Id>(program_.nodes.size()); id-- > 0;) {
    if (!open[id]) continue;
    for (Id operand : program_.nodes[id].operands()) open[operand] = true;
  }
  std::size_t smallest = 0, size = by_colour_.size() + 1;
  for (std::size_t c = 0; c + 1 < class_start_.size(); ++c) {
    const std::size_t first = class_start_[c], count = class_start_[c + 1] - first;
    if (count == 1 || count >= size) continue;
    const bool reached =
        std::any_of(by_colour_.begin() + static_cast<std::ptrdiff_t>(first),
                    by_colour_.begin() + static_cast<std::ptrdiff_t>(first + count),
                    [&](std::uint32_t leaf) { return open[refinement_.leaves()[leaf]]; });
    if (!reached) continue;
    smallest = first;
    size = count;
  }
  if (size > by_colour_.size()) return {};
  const auto begin = by_colour_.begin() + static_cast<std::ptrdiff_t>(smallest);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// Deep operands first, as people write sums; then leaves by kind. Slots break remaining ties.
bool Numbering::before(Id a, Id b) const {
  if (a == b) return false;
  const auto key = [&](Id id) {
    return std::tuple(~refinement_.height(id), program_.nodes[id].op, facts_[id].lowest_choice,
                      refinement_.colour(id), facts_[id].lowest_leaf, id);
  };
  return key(a) < key(b);
}

std::vector<Guard> Numbering::ordered_guards() const {
  std::vector<Guard> guards = program_.guards;
  std::sort(guards.begin(), guards.end(), [&](const Guard& a, const Guard& b) {
    return a.expected != b.expected ? a.expected : before(a.condition, b.condition);
  });
  return guards;
}

std::uint32_t& count_of(LeafCounts& leaves, Op space) {
  if (space == Op::Parameter) return leaves.parameters;
  return space == Op::Data ? leaves.data : leaves.uniforms;
}

/// An operation on operands with these numbers.
Node renumbered(const Node& node, const std::vector<Id>& number) {
  std::array<Id, 3> args = node.args;
  for (int k = 0; k < arity(node.op); ++k) args[k] = number[args[k]];
  return make_node(node.op, args[0], args[1], args[2]);
}

// Bound for structures in which a round separates only one leaf; trials break the remaining ties.
constexpr int kMaxRounds = 64;

constexpr std::uint64_t kOutput = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kGuard = 0xc2b2ae3d27d4eb4fULL;
constexpr std::uint64_t kOperand = 0x165667b19e3779f9ULL;

std::uint64_t join(std::uint64_t a, std::uint64_t b) {
  return mix64(a * 0xff51afd7ed558ccdULL + b + 0x632be59bd9b4e019ULL);
}

// Visits each distinct operand once: mul(x, x) is one user of x.
template <class F>
void for_distinct_operands(const Node& node, F f) {
  const int n = arity(node.op);
  for (int k = 0; k < n; ++k) {
    const bool repeated =
        (k > 0 && node.args[k] == node.args[0]) || (k > 1 && node.args[k] == node.args[1]);
    if (!repeated) f(node.args[k]);
  }
}

// Limit of node visits for trials, about ten milliseconds. Programs that need more keep the form of
// the first path.
constexpr std::uint64_t kWork = 1 << 21;

bool less(const Program& a, const Program& b) {
  const auto node_less = [](const Node& x, const Node& y) {
    return std::tie(x.op, x.args) < std::tie(y.op, y.args);
  };
  const auto guard_less = [](const Guard& x, const Guard& y) {
    return std::tie(x.condition, x.expected) < std::tie(y.condition, y.expected);
  };
  if (a.nodes != b.nodes) {
    return std::lexicographical_compare(a.nodes.begin(), a.nodes.end(), b.nodes.begin(),
                                        b.nodes.end(), node_less);
  }
  if (a.outputs != b.outputs) return a.outputs < b.outputs;
  return std::lexicographical_compare(a.guards.begin(), a.guards.end(), b.guards.begin(),
                                      b.guards.end(), guard_less);
}

std::vector<std::uint32_t> by_colour(const std::vector<std::uint64_t>& colours) {
  std::vector<std::uint32_t> order(colours.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(colours[a], a) < std::tie(colours[b], b);
  });
  return order;
}

CanonicalForm Numbering::form() const {
  CanonicalForm out;
  out.program.nodes.reserve(program_.nodes.size());
  std::vector<Id> number(program_.nodes.size(), kNone);
  std::vector<Id> stack;

  const auto emit = [&](Id id) {
    if (number[id] != kNone) return;
    Node node = program_.nodes[id];
    if (!is_leaf(node.op)) {
      node = renumbered(node, number);
    } else if (node.op != Op::Literal) {
      out.leaves.push_back(refinement_.leaf_index(id));
      node = make_leaf(node.op, count_of(out.program.leaves, node.op)++);
    }
    number[id] = static_cast<Id>(out.program.nodes.size());
    out.program.nodes.push_back(node);
  };
  const auto push_operands = [&](const Node& node) {
    std::array<Id, 3> args = node.args;
    if (info(node.op).commutes && before(args[1], args[0])) std::swap(args[0], args[1]);
    for (int k = arity(node.op); k-- > 0;) {
      if (number[args[k]] == kNone) stack.push_back(args[k]);
    }
  };
  const auto walk = [&](Id root) {
    stack.push_back(root);
    while (!stack.empty()) {
      const Id id = stack.back();
      const std::size_t size = stack.size();
      if (number[id] == kNone) push_operands(program_.nodes[id]);
      if (stack.size() > size) continue;
      stack.pop_back();
      emit(id);
    }
  };

  const std::vector<Guard> guards = ordered_guards();
  for (Id id : program_.outputs) walk(id);
  for (const Guard& g : guards) walk(g.condition);
  for (Id id : program_.outputs) out.program.outputs.push_back(number[id]);
  for (const Guard& g : guards) out.program.guards.push_back({number[g.condition], g.expected});
  std::sort(out.program.guards.begin(), out.program.guards.end(),
            [](const Guard& a, const Guard& b) {
              return std::tie(a.condition, a.expected) < std::tie(b.condition, b.expected);
            });
  return out;
}

/// Slots by leaf space, in the order of the form's numbering.
std::vector<std::uint32_t> source_slots(const CanonicalForm& form, const Refinement& refinement,
                                        Op space) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t leaf : form.leaves) {
    const Node& node = refinement.program().nodes[refinement.leaves()[leaf]];
    if (node.op == space) slots.push_back(node.slot());
  }
  return slots;
}

Refinement::Refinement(const Program& program)
    : program_(program),
      leaf_index_(program.nodes.size(), kNone),
      height_(program.nodes.size()),
      uses_(program.nodes.size()),
      up_(program.nodes.size()),
      colour_(program.nodes.size()) {
  for (Id id = 0; id < program.nodes.size(); ++id) {
    const Node& node = program.nodes[id];
    if (is_leaf(node.op) && node.op != Op::Literal) leaves_.push_back(id);
    for_distinct_operands(node, [&](Id operand) {
      height_[id] = std::max(height_[id], height_[operand] + 1);
      ++uses_[operand];
    });
  }
  for (Id id : program.outputs) ++uses_[id];
  for (const Guard& g : program.guards) ++uses_[g.condition];
  std::sort(leaves_.begin(), leaves_.end(), [&](Id a, Id b) {
    const Node &x = program_.nodes[a], &y = program_.nodes[b];
    return x.op != y.op ? x.op < y.op : x.slot() < y.slot();
  });
  for (std::uint32_t k = 0; k < leaves_.size(); ++k) leaf_index_[leaves_[k]] = k;
}

void Refinement::colour_upwards(const std::vector<std::uint64_t>& leaf_colours) {
  for (Id id = 0; id < program_.nodes.size(); ++id) {
    const Node& n = program_.nodes[id];
    const auto op = static_cast<std::uint64_t>(n.op);
    if (n.op == Op::Literal) {
      up_[id] = join(op, (std::uint64_t{n.args[2]} << 32) | n.args[1]);
      continue;
    }
    if (is_leaf(n.op)) {
      up_[id] = join(op, leaf_colours[leaf_index_[id]]);
      continue;
    }
    const int k = arity(n.op);
    std::uint64_t a = up_[n.args[0]], b = k > 1 ? up_[n.args[1]] : 0;
    if (info(n.op).commutes && b < a) std::swap(a, b);
    up_[id] = join(join(op, a), b);
    if (k > 2) up_[id] = join(up_[id], up_[n.args[2]]);
  }
}

void Refinement::colour_downwards() {
  std::fill(colour_.begin(), colour_.end(), 0);
  for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
    colour_[program_.outputs[k]] += mix64(kOutput + k);
  }
  for (const Guard& g : program_.guards) colour_[g.condition] += mix64(kGuard + g.expected);
  for (Id id = static_cast<Id>(program_.nodes.size()); id-- > 0;) {
    // Holds the sum over the users, which does not depend on their order.
    colour_[id] = join(up_[id], colour_[id]);
    const Node& n = program_.nodes[id];
    const auto count = static_cast<std::uint32_t>(arity(n.op));
    for (std::uint32_t k = 0; k < count; ++k) {
      colour_[n.args[k]] += mix64(colour_[id] + kOperand * (1 + operand_position(n.op, k)));
    }
  }
}

void Refinement::refine(std::vector<std::uint64_t>& leaf_colours) {
  std::size_t classes = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    colour_upwards(leaf_colours);
    colour_downwards();
    visits_ += 2 * program_.nodes.size();
    sorted_.clear();
    for (std::size_t k = 0; k < leaves_.size(); ++k) {
      leaf_colours[k] = colour_[leaves_[k]];
      sorted_.push_back(leaf_colours[k]);
    }
    std::sort(sorted_.begin(), sorted_.end());
    const auto now =
        static_cast<std::size_t>(std::unique(sorted_.begin(), sorted_.end()) - sorted_.begin());
    if (now == leaves_.size() || now == classes) break;
    classes = now;
  }
  // Updates nodes above leaves that the last round separated.
  colour_upwards(leaf_colours);
  for (Id id = 0; id < colour_.size(); ++id) colour_[id] = join(up_[id], colour_[id]);
}

CanonicalSearch::CanonicalSearch(Refinement& refinement)
    : refinement_(refinement), orbit_(refinement.leaves().size()) {
  std::iota(orbit_.begin(), orbit_.end(), 0u);
}

const CanonicalForm& CanonicalSearch::run() {
  walk_first_way();
  // From the last choice up: automorphisms found below a level keep its earlier choices in place.
  for (std::size_t k = levels_.size(); k-- > 0 && exact_;) try_others(levels_[k]);
  return better_ ? *better_ : first_;
}

Numbering CanonicalSearch::settle(State& state) {
  refinement_.refine(state.colours);
  return {refinement_, state.colours, state.chosen};
}

bool CanonicalSearch::out_of_work() {
  if (refinement_.visits() > kWork) exact_ = false;
  return !exact_;
}

CanonicalSearch::State CanonicalSearch::choose(const State& state, std::uint32_t leaf) const {
  State next = state;
  next.chosen.push_back(leaf);
  next.colours[leaf] = mix64(next.colours[leaf] + next.chosen.size());
  return next;
}

void CanonicalSearch::walk_first_way() {
  State state{.colours = std::vector<std::uint64_t>(refinement_.leaves().size()), .chosen = {}};
  for (;;) {
    const Numbering numbering = settle(state);
    if (!levels_.empty()) levels_.back().first_colours = state.colours;
    std::vector<std::uint32_t> tied = numbering.open_class();
    if (tied.empty() || out_of_work()) {
      exact_ = exact_ && numbering.complete();
      first_ = numbering.form();
      return;
    }
    State next = choose(state, tied[0]);
    levels_.push_back({std::move(state), std::move(tied), {}});
    state = std::move(next);
  }
}

void CanonicalSearch::try_others(const Level& level) {
  std::vector<std::uint32_t> tried = {level.tied[0]};
  for (std::size_t k = 1; k < level.tied.size() && exact_; ++k) {
    const std::uint32_t leaf = level.tied[k];
    const bool known = std::any_of(tried.begin(), tried.end(), [&](std::uint32_t other) {
      return orbit(other) == orbit(leaf);
    });
    if (known || out_of_work()) continue;
    tried.push_back(leaf);
    State state = choose(level.state, leaf);
    refinement_.refine(state.colours);
    if (!guess_automorphism(level, state)) explore(choose(level.state, leaf));
  }
}

// Follows every path from `start` until one gives the first form: the others then have
// counterparts.
void CanonicalSearch::explore(State start) {
  std::vector<State> pending = {std::move(start)};
  while (!pending.empty() && !out_of_work()) {
    State state = std::move(pending.back());
    pending.pop_back();
    const Numbering numbering = settle(state);
    const std::vector<std::uint32_t> tied = numbering.open_class();
    for (std::size_t k = tied.size(); k-- > 0;) pending.push_back(choose(state, tied[k]));
    if (!tied.empty()) continue;
    exact_ = exact_ && numbering.complete();
    CanonicalForm form = numbering.form();
    if (form.program == first_.program) return unite(first_.leaves, form.leaves);
    if (less(form.program, (better_ ? *better_ : first_).program)) better_ = std::move(form);
  }
}

// Maps leaves of equal colour after either choice in order of slots: right if ties are independent.
bool CanonicalSearch::guess_automorphism(const Level& level, const State& other) {
  const std::vector<std::uint32_t> from = by_colour(level.first_colours);
  const std::vector<std::uint32_t> to = by_colour(other.colours);
  std::vector<std::uint32_t> image(from.size());
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (level.first_colours[from[k]] != other.colours[to[k]]) return false;
    image[from[k]] = to[k];
  }
  if (!is_automorphism(image)) return false;
  unite(from, to);
  return true;
}

bool CanonicalSearch::is_automorphism(const std::vector<std::uint32_t>& image) {
  const Program& program = refinement_.program();
  if (!nodes_) append(nodes_.emplace(), program);
  const std::size_t size = program.nodes.size();
  std::vector<Id> map(size);
  for (Id id = 0; id < size; ++id) {
    const Node& node = program.nodes[id];
    const bool moves = is_leaf(node.op) && node.op != Op::Literal;
    map[id] =
        moves ? refinement_.leaves()[image[refinement_.leaf_index(id)]] : nodes_->copy(node, map);
    if (map[id] < size) continue;
    nodes_.reset();
    return false;
  }
  const auto guarded = [&](const Guard& g) {
    const Guard moved = {map[g.condition], g.expected};
    return std::find(program.guards.begin(), program.guards.end(), moved) != program.guards.end();
  };
  return std::all_of(program.outputs.begin(), program.outputs.end(),
                     [&](Id id) { return map[id] == id; }) &&
         std::all_of(program.guards.begin(), program.guards.end(), guarded);
}

void CanonicalSearch::unite(const std::vector<std::uint32_t>& from,
                            const std::vector<std::uint32_t>& to) {
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::uint32_t a = orbit(from[k]), b = orbit(to[k]);
    orbit_[std::max(a, b)] = std::min(a, b);
  }
}

std::uint32_t CanonicalSearch::orbit(std::uint32_t leaf) {
  while (orbit_[leaf] != leaf) leaf = orbit_[leaf] = orbit_[orbit_[leaf]];
  return leaf;
}

Hash128 hash_of(const Program& program) {
  Hash128 hash;
  for (std::uint64_t count :
       {std::size_t{program.leaves.parameters}, std::size_t{program.leaves.data},
        std::size_t{program.leaves.uniforms}, program.nodes.size(), program.outputs.size(),
        program.guards.size()}) {
    hash.add(count);
  }
  for (const Node& n : program.nodes) {
    hash.add((std::uint64_t{n.args[0]} << 8) | static_cast<std::uint64_t>(n.op));
    if (arity(n.op) > 1 || n.op == Op::Literal)
      hash.add((std::uint64_t{n.args[2]} << 32) | n.args[1]);
  }
  for (Id id : program.outputs) hash.add(id);
  for (const Guard& g : program.guards) hash.add(2 * std::uint64_t{g.condition} + g.expected);
  return hash;
}

// A repeated guard does not change the structure.
void remove_repeated(std::vector<Guard>& guards) {
  std::sort(guards.begin(), guards.end(), [](const Guard& a, const Guard& b) {
    return std::tie(a.condition, a.expected) < std::tie(b.condition, b.expected);
  });
  guards.erase(std::unique(guards.begin(), guards.end()), guards.end());
}

void expect_residual(const Program& program) {
  for (const Node& n : program.nodes) {
    if (n.op != Op::Tangent && n.op != Op::Seed) continue;
    throw Error(ErrorCode::InvalidArgument,
                "canonicalize: expected a program of parameters, data and uniforms, got a " +
                    std::string(info(n.op).name) + " leaf");
  }
}

std::string differing(const std::string& what, const std::string& a, const std::string& b) {
  return what + ": " + a + " against " + b;
}

std::string count_difference(const Program& a, const Program& b) {
  const struct {
    const char* what;
    std::size_t a, b;
  } rows[] = {
      {"outputs", a.outputs.size(), b.outputs.size()},
      {"parameters", a.leaves.parameters, b.leaves.parameters},
      {"data", a.leaves.data, b.leaves.data},
      {"uniforms", a.leaves.uniforms, b.leaves.uniforms},
      {"guards", a.guards.size(), b.guards.size()},
  };
  for (const auto& row : rows) {
    if (row.a != row.b) return differing(row.what, std::to_string(row.a), std::to_string(row.b));
  }
  return "";
}

std::string op_difference(const Program& a, const Program& b) {
  std::array<std::size_t, kOpCount> in_a{}, in_b{};
  for (const Node& n : a.nodes) ++in_a[static_cast<std::size_t>(n.op)];
  for (const Node& n : b.nodes) ++in_b[static_cast<std::size_t>(n.op)];
  for (std::size_t op = 0; op < kOpCount; ++op) {
    if (in_a[op] == in_b[op]) continue;
    return differing("number of " + std::string(kOps[op].name), std::to_string(in_a[op]),
                     std::to_string(in_b[op]));
  }
  return "";
}

// The first literal, in order of use, that only one of the two has.
std::string literal_difference(const Program& a, const Program& b) {
  const auto literals = [](const Program& p) {
    std::vector<double> values;
    for (const Node& n : p.nodes) {
      if (n.op == Op::Literal) values.push_back(n.literal());
    }
    std::sort(values.begin(), values.end(), [](double x, double y) {
      return std::bit_cast<std::uint64_t>(x) < std::bit_cast<std::uint64_t>(y);
    });
    return values;
  };
  const std::vector<double> x = literals(a), y = literals(b);
  for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
    if (std::bit_cast<std::uint64_t>(x[k]) == std::bit_cast<std::uint64_t>(y[k])) continue;
    return differing("literal", print_number(x[k]), print_number(y[k]));
  }
  return "";
}

std::string guard_text(const Guard& g) {
  return "%" + std::to_string(g.condition) + (g.expected ? " true" : " false");
}

std::string wiring_difference(const Program& a, const Program& b) {
  for (Id id = 0; id < std::min(a.nodes.size(), b.nodes.size()); ++id) {
    if (a.nodes[id] == b.nodes[id]) continue;
    return differing("same ops, wired differently", print_node(id, a.nodes[id]),
                     print_node(id, b.nodes[id]));
  }
  for (std::size_t k = 0; k < a.outputs.size(); ++k) {
    if (a.outputs[k] == b.outputs[k]) continue;
    return differing("output " + std::to_string(k), "%" + std::to_string(a.outputs[k]),
                     "%" + std::to_string(b.outputs[k]));
  }
  for (std::size_t k = 0; k < a.guards.size(); ++k) {
    if (a.guards[k] == b.guards[k]) continue;
    return differing("guard " + std::to_string(k), guard_text(a.guards[k]),
                     guard_text(b.guards[k]));
  }
  return "";
}

}  // namespace

Canonical canonicalize(const Program& program) {
  Program source = remove_dead(program);
  expect_residual(source);
  remove_repeated(source.guards);
  Refinement refinement(source);
  CanonicalSearch search(refinement);
  const CanonicalForm& form = search.run();
  Canonical out;
  out.parameters = source_slots(form, refinement, Op::Parameter);
  out.data = source_slots(form, refinement, Op::Data);
  out.uniforms = source_slots(form, refinement, Op::Uniform);
  out.exact = search.exact();
  out.topology.program = checked(form.program, "canonicalize");
  out.topology.hash = hash_of(form.program);
  return out;
}

std::string explain_miss(const Topology& a, const Topology& b) {
  for (const auto find : {count_difference, op_difference, literal_difference, wiring_difference}) {
    std::string found = find(a.program, b.program);
    if (!found.empty()) return found;
  }
  return "equal";
}

}  // namespace topograd::ir
