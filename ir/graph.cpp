// Hash-consing and extraction.
#include <topograd/ir/graph.hpp>
#include <topograd/ir/hash.hpp>

#include <algorithm>
#include <bit>

namespace topograd::ir {
namespace {

std::uint64_t hash_node(const Node& n) {
  const auto low = (std::uint64_t{n.args[0]} << 8) | static_cast<std::uint64_t>(n.op);
  const auto high = (std::uint64_t{n.args[2]} << 32) | n.args[1];
  return mix64(low * 0x9e3779b97f4a7c15ULL ^ mix64(high));
}

}  // namespace

Id Graph::intern(const Node& node) {
  if (nodes_.size() * 2 >= table_.size()) rehash(std::max<std::size_t>(64, table_.size() * 2));
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash_node(node) & mask;
  while (table_[at] != kNone) {
    if (nodes_[table_[at]] == node) return table_[at];
    at = (at + 1) & mask;
  }
  const Id id = static_cast<Id>(nodes_.size());
  nodes_.push_back(node);
  table_[at] = id;
  return id;
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
  const std::size_t mask = table_.size() - 1;
  for (Id id = 0; id < nodes_.size(); ++id) {
    std::size_t at = hash_node(nodes_[id]) & mask;
    while (table_[at] != kNone) at = (at + 1) & mask;
    table_[at] = id;
  }
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
  for (Id id = last + 1; id-- > 0;) {
    if (renamed[id] != kNeeded) continue;
    for (Id operand : nodes_[id].operands()) renamed[operand] = kNeeded;
  }
  Program program{.leaves = leaves};
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
