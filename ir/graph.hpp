// A graph: append-only, hash-consed nodes from which programs are taken.
#pragma once

#include "program.hpp"

#include <span>
#include <vector>

namespace topograd::ir {

/// Builds expressions; equal nodes are one node, operands of commutative ops are ordered.
///
/// Nothing is simplified here; passes do that.
class Graph {
 public:
  Graph() = default;

  Id leaf(Op op, std::uint32_t slot) { return intern(make_leaf(op, slot)); }
  Id literal(double value) { return intern(make_literal(value)); }
  Id add(Op op, Id a, Id b = 0, Id c = 0) { return intern(make_node(op, a, b, c)); }
  /// Copies a node with its operands renamed through `map` (old id -> id in this graph).
  Id copy(const Node& node, std::span<const Id> map);
  Id intern(const Node& node);

  /// Reserves memory for a total of `nodes` nodes.
  void reserve(std::size_t nodes);

  const Node& operator[](Id id) const { return nodes_[id]; }
  std::size_t size() const { return nodes_.size(); }
  std::span<const Node> nodes() const { return nodes_; }

  /// Returns the nodes that `outputs` and `guards` need, renumbered in their present order.
  Program extract(std::span<const Id> outputs, LeafCounts leaves,
                  std::span<const Guard> guards = {}) const;

 private:
  void rehash(std::size_t size);

  std::vector<Node> nodes_;
  std::vector<Id> table_;  // open addressing, kNone where free; size is a power of two
};

/// Appends `program` to `graph`; returns the id of each of its nodes there.
std::vector<Id> append(Graph& graph, const Program& program);

}  // namespace topograd::ir
