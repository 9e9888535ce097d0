// Nodes of array graphs, with checks of their operands.
#include "array_graph.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace topograd::python {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

std::size_t Layout::size() const {
  std::size_t n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
  return n;
}

bool Layout::is_identity(std::size_t size) const {
  const Layout s = simplified();
  if (s.offset != 0 || s.size() != size) return false;
  return s.shape.empty() || (s.shape.size() == 1 && s.strides[0] == 1);
}

Layout Layout::simplified() const {
  Layout out{{}, {}, offset};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool continues = !out.shape.empty() && out.strides.back() == shape[d] * strides[d];
    if (continues) {
      out.shape.back() *= shape[d];
      out.strides.back() = strides[d];
    } else {
      out.shape.push_back(shape[d]);
      out.strides.push_back(strides[d]);
    }
  }
  return out;
}

bool Layout::is_within(std::size_t elements) const {
  std::int64_t first = offset, last = offset;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return true;
    (strides[d] < 0 ? first : last) += (shape[d] - 1) * strides[d];
  }
  return first >= 0 && last < static_cast<std::int64_t>(elements);
}

void ArrayGraph::check(const View& view) const {
  if (!view.layout.is_within(nodes_.at(view.node).size))
    throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
}

NodeId ArrayGraph::append(Node node) {
  if (node.size > std::numeric_limits<Index>::max())
    throw Error(ErrorCode::InvalidArgument, "trace: expected arrays of fewer than 2^32 elements");
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId ArrayGraph::unknowns(Index first, std::size_t count) {
  return append({.kind = Kind::unknowns, .size = count, .operands = {}, .first = first});
}

NodeId ArrayGraph::numbers(std::vector<double> values) {
  const std::size_t size = values.size();
  return append(
      {.kind = Kind::numbers, .size = size, .operands = {}, .numbers = std::move(values)});
}

NodeId ArrayGraph::scalar(double number) {
  return append({.kind = Kind::scalar, .operands = {}, .number = number});
}

NodeId ArrayGraph::apply(ir::Op op, std::vector<View> operands) {
  if (operands.size() != static_cast<std::size_t>(ir::info(op).arity) || operands.empty())
    throw Error(ErrorCode::Shape, "trace: wrong number of operands");
  const std::size_t size = operands[0].layout.size();
  for (View& operand : operands) {
    if (operand.layout.size() != size)
      throw Error(ErrorCode::Shape, "trace: operands of different sizes");
    check(operand);
    operand.layout = operand.layout.simplified();
  }
  return append({.kind = Kind::apply, .op = op, .size = size, .operands = std::move(operands)});
}

NodeId ArrayGraph::gather(NodeId source, std::vector<Index> positions) {
  const std::size_t size = nodes_.at(source).size;
  if (std::ranges::any_of(positions, [&](Index p) { return p >= size; }))
    throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
  const std::size_t count = positions.size();
  return append({.kind = Kind::gather,
                 .size = count,
                 .operands = {{source, {}}},
                 .positions = std::move(positions)});
}

NodeId ArrayGraph::join(const std::vector<NodeId>& sources, std::vector<Index> parts,
                        std::vector<Index> positions) {
  const std::size_t count = parts.size();
  if (positions.size() != count)
    throw Error(ErrorCode::Shape, "trace: as many parts as positions are needed");
  for (std::size_t k = 0; k < count; ++k)
    if (parts[k] >= sources.size() || positions[k] >= nodes_.at(sources[parts[k]]).size)
      throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
  Node node{.kind = Kind::join,
            .size = count,
            .operands = {},
            .parts = std::move(parts),
            .positions = std::move(positions)};
  for (const NodeId source : sources) node.operands.push_back({source, {}});
  return append(std::move(node));
}

NodeId ArrayGraph::reduce(ir::Op op, View operand, std::size_t extent) {
  check(operand);
  operand.layout = operand.layout.simplified();
  const std::size_t size = operand.layout.size();
  if (extent == 0 || size % extent != 0)
    throw Error(ErrorCode::Shape, "trace: groups of a reduction do not fill the array");
  return append({.kind = Kind::reduce,
                 .op = op,
                 .size = size / extent,
                 .operands = {std::move(operand)},
                 .extent = extent});
}

void ArrayGraph::replace(NodeId id, std::vector<double> values) {
  Node& node = nodes_.at(id);
  if (node.kind != Kind::numbers || node.size != values.size())
    throw Error(ErrorCode::Shape, "trace: other numbers than those of the node");
  node.numbers = std::move(values);
}

void ArrayGraph::become_leaves(NodeId id, Index first) {
  Node& node = nodes_.at(id);
  node.kind = Kind::unknowns;
  node.first = first;
  node.numbers.clear();
}

std::optional<std::vector<NodeId>> ArrayGraph::difference(NodeId root,
                                                          const ArrayGraph& other) const {
  if (root >= nodes_.size() || root >= other.nodes_.size()) return std::nullopt;
  std::vector<NodeId> out;
  for (NodeId id = 0; id <= root; ++id) {
    const Node &a = nodes_[id], &b = other.nodes_[id];
    const bool alike = a.kind == b.kind && a.op == b.op && a.size == b.size && a.first == b.first &&
                       a.extent == b.extent && same_bits(a.number, b.number) &&
                       a.operands == b.operands && a.parts == b.parts && a.positions == b.positions;
    if (!alike) return std::nullopt;
    if (!std::ranges::equal(a.numbers, b.numbers, same_bits)) out.push_back(id);
  }
  return out;
}

}  // namespace topograd::python
