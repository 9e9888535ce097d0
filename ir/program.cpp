// Look-up of ops by name; literals, counts of nodes, hash-consing, and extraction of programs.
#include "program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "hash.hpp"
#include "op.hpp"

namespace topograd::ir {
namespace {

std::uint64_t hash_node(const Node& n) {
  const auto low = (std::uint64_t{n.args[0]} << 8) | static_cast<std::uint64_t>(n.op);
  const auto high = (std::uint64_t{n.args[2]} << 32) | n.args[1];
  return mix64(low * 0x9e3779b97f4a7c15ULL ^ mix64(high));
}

// Slot of the hash table where the search for a node starts: near the nodes that were made when its
// last operand was. A sweep over a program then walks through the table in order, and a program
// larger than the caches costs no more per node than a small one. Leaves start at the other end.
std::size_t home_of(const Node& n, std::size_t mask) {
  if (n.op == Op::Literal) return hash_node(n) & mask;
  if (is_leaf(n.op)) return (mask - std::size_t{2} * n.slot()) & mask;
  return (std::size_t{2} * std::max({n.args[0], n.args[1], n.args[2]})) & mask;
}

// Slots near the home of nodes with one last operand; further ones are hashed over the whole table.
constexpr std::size_t kNear = 8;

// Returns the first entry on a node's probe sequence for which `ends` is true.
template <class Ends>
Id& search(std::vector<Id>& table, const Node& node, Ends ends) {
  const std::size_t mask = table.size() - 1, home = home_of(node, mask);
  for (std::size_t k = 0; k < kNear; ++k) {
    Id& entry = table[(home + k) & mask];
    if (ends(entry)) return entry;
  }
  std::size_t at = hash_node(node) & mask;
  while (!ends(table[at])) at = (at + 1) & mask;
  return table[at];
}

}  // namespace

std::optional<Op> find_op(std::string_view name) {
  for (const OpInfo& row : kOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

Node make_literal(double value) {
  const double canonical = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  const auto bits = std::bit_cast<std::uint64_t>(canonical);
  return {Op::Literal, {0, static_cast<Id>(bits), static_cast<Id>(bits >> 32)}};
}

std::size_t operation_count(const Program& program) {
  return static_cast<std::size_t>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                                [](const Node& n) { return !is_leaf(n.op); }));
}

Id Graph::intern(const Node& node) {
  if (nodes_.size() * 2 >= table_.size()) rehash(std::max<std::size_t>(64, table_.size() * 2));
  Id& entry = search(table_, node, [&](Id at) { return at == kNone || nodes_[at] == node; });
  if (entry != kNone) return entry;
  entry = static_cast<Id>(nodes_.size());
  nodes_.push_back(node);
  return entry;
}

Id Graph::copy(const Node& node, std::span<const Id> map) {
  if (is_leaf(node.op)) return intern(node);
  Node renamed = node;
  for (int k = 0; k < arity(node.op); ++k) renamed.args[k] = map[node.args[k]];
  return intern(make_node(renamed.op, renamed.args[0], renamed.args[1], renamed.args[2]));
}

void Graph::reserve(std::size_t nodes) {
  nodes_.reserve(nodes);
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(64, nodes * 2 + 1));
  if (size > table_.size()) rehash(size);
}

void Graph::rehash(std::size_t size) {
  table_.assign(size, kNone);
  for (Id id = 0; id < nodes_.size(); ++id)
    search(table_, nodes_[id], [](Id at) { return at == kNone; }) = id;
}

Program Graph::extract(std::span<const Id> outputs, LeafCounts leaves,
                       std::span<const Guard> guards) const {
  std::vector<Id> renamed(nodes_.size(), kNone);
  constexpr Id kNeeded = kNone - 1;
  Id last = 0;
  const auto need = [&](Id id) {
    renamed[id] = kNeeded;
    last = std::max(last, id);
  };
  for (Id id : outputs) need(id);
  for (const Guard& g : guards) need(g.condition);
  if (outputs.empty() && guards.empty()) return {.leaves = leaves};
  std::size_t needed = 0;
  for (Id id = last + 1; id-- > 0;) {
    if (renamed[id] != kNeeded) continue;
    ++needed;
    for (Id operand : nodes_[id].operands()) renamed[operand] = kNeeded;
  }
  Program program{.leaves = leaves};
  program.nodes.reserve(needed);
  for (Id id = 0; id <= last; ++id) {
    if (renamed[id] != kNeeded) continue;
    Node node = nodes_[id];
    for (int k = 0; k < arity(node.op); ++k) node.args[k] = renamed[node.args[k]];
    renamed[id] = static_cast<Id>(program.nodes.size());
    program.nodes.push_back(node);
  }
  for (Id id : outputs) program.outputs.push_back(renamed[id]);
  for (const Guard& g : guards) program.guards.push_back({renamed[g.condition], g.expected});
  return program;
}

std::vector<Id> append(Graph& graph, const Program& program) {
  std::vector<Id> map(program.nodes.size());
  for (Id id = 0; id < program.nodes.size(); ++id) map[id] = graph.copy(program.nodes[id], map);
  return map;
}

}  // namespace topograd::ir
