// Programs, which every pass takes and returns, and the hash-consed graphs that they come from.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "op.hpp"

namespace topograd::ir {

/// Position of a node in its program or graph.
using Id = std::uint32_t;
inline constexpr Id kNone = ~Id{0};

/// One node: an op and its operands, a leaf and its slot, or a literal and its number. 16 bytes.
struct Node {
  Op op = Op::Literal;
  std::array<Id, 3> args = {0, 0,
                            0};  ///< operands; {slot} for leaves; {0, low, high} bits for literals

  friend constexpr bool operator==(const Node& a, const Node& b) {
    return a.op == b.op && a.args[0] == b.args[0] && a.args[1] == b.args[1] &&
           a.args[2] == b.args[2];
  }

  std::span<const Id> operands() const {
    return {args.data(), static_cast<std::size_t>(arity(op))};
  }
  std::uint32_t slot() const { return args[0]; }
  double literal() const { return std::bit_cast<double>((std::uint64_t{args[2]} << 32) | args[1]); }
};
static_assert(sizeof(Node) == 16);

constexpr Node make_leaf(Op op, std::uint32_t slot) { return {op, {slot, 0, 0}}; }

/// Makes a literal. NaNs are stored as one quiet NaN, so that equal literals are equal nodes.
Node make_literal(double value);

/// Makes a node. Operands of commutative ops are sorted; operands beyond the arity of `op` are
/// ignored.
constexpr Node make_node(Op op, Id a, Id b = 0, Id c = 0) {
  const OpInfo& row = info(op);
  if (row.commutes && b < a) {
    const Id first = b;
    b = a;
    a = first;
  }
  return {op, {a, row.arity > 1 ? b : 0, row.arity > 2 ? c : 0}};
}

/// A recorded branch: `condition` was non-zero (or zero) when the expression was traced.
struct Guard {
  Id condition = kNone;
  bool expected = true;
  friend bool operator==(const Guard&, const Guard&) = default;
};

/// Sizes of the leaf spaces a program reads. Slots are 0 .. size-1; not every slot needs a leaf.
struct LeafCounts {
  std::uint32_t parameters = 0;  ///< unknown scalars of one instance (tangents: one for each)
  std::uint32_t data = 0;        ///< numbers that belong to the instance
  std::uint32_t uniforms = 0;    ///< numbers shared between instances
  std::uint32_t seeds = 0;       ///< adjoints handed in, one for each residual row

  friend bool operator==(const LeafCounts&, const LeafCounts&) = default;
};

/// Straight-line scalar code: operands precede users, equal nodes are one node.
///
/// Invariants (checked by verify()): every operand is smaller than its user; slots are below their
/// counts; no two nodes are equal; operands of commutative ops are in ascending order.
struct Program {
  std::vector<Node> nodes;
  std::vector<Id> outputs;
  std::vector<Guard> guards;
  LeafCounts leaves;

  friend bool operator==(const Program&, const Program&) = default;
};

/// Number of nodes that compute something (neither leaf nor literal).
std::size_t operation_count(const Program& program);

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

/// The member of `spaces`, such as Inputs, that the slots of this kind of leaf count; null for
/// literals and operations.
template <class Spaces>
constexpr auto* leaf_space(Op op, Spaces& spaces) {
  return op == Op::Parameter ? &spaces.parameters
         : op == Op::Data    ? &spaces.data
         : op == Op::Uniform ? &spaces.uniforms
         : op == Op::Tangent ? &spaces.tangents
         : op == Op::Seed    ? &spaces.seeds
                             : nullptr;
}

}  // namespace topograd::ir
