// Ties between operands, and the walk that numbers nodes.
#include "canonical_form.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace topograd::ir {

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

namespace {

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

}  // namespace

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

std::vector<std::uint32_t> source_slots(const CanonicalForm& form, const Refinement& refinement,
                                        Op space) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t leaf : form.leaves) {
    const Node& node = refinement.program().nodes[refinement.leaves()[leaf]];
    if (node.op == space) slots.push_back(node.slot());
  }
  return slots;
}

}  // namespace topograd::ir
