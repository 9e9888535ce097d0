// The search tree of choices, walked without recursion.
#include "canonical_search.hpp"
#include "../hash.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace topograd::ir {
namespace {

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

}  // namespace

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

}  // namespace topograd::ir
