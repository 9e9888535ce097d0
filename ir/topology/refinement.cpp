// Colour passes up and down a program.
#include "refinement.hpp"
#include "../hash.hpp"

#include <algorithm>

namespace topograd::ir {
namespace {

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

}  // namespace

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

}  // namespace topograd::ir
