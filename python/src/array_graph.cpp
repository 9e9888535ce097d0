// Nodes of array graphs, with checks of their operands.
#include "array_graph.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace topograd::python {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Sums of fewer terms stay as they are: series of special functions are among them.
constexpr std::size_t kFewTerms = 16;

std::shared_ptr<const ArrayGraph::Lists> listed(std::vector<double> numbers,
                                                std::vector<Index> parts = {},
                                                std::vector<Index> positions = {}) {
  return std::make_shared<const ArrayGraph::Lists>(
      ArrayGraph::Lists{std::move(numbers), std::move(parts), std::move(positions)});
}

}  // namespace

const ArrayGraph::Lists& ArrayGraph::Node::listed() const {
  static const Lists kNone;
  return lists ? *lists : kNone;
}

Extents::Extents(const std::int64_t* first, const std::int64_t* last) {
  const std::ptrdiff_t count = last - first;
  if (count <= 0) return;
  values_ = std::make_unique<std::int64_t[]>(static_cast<std::size_t>(count) + 1);
  values_[0] = count;
  for (std::ptrdiff_t d = 0; d < count; ++d) values_[static_cast<std::size_t>(d) + 1] = first[d];
}

void Extents::push_back(std::int64_t value) {
  std::vector<std::int64_t> longer(begin(), end());
  longer.push_back(value);
  *this = Extents(longer);
}

std::size_t Layout::size() const {
  std::size_t n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
  return n;
}

Index Layout::element(std::uint64_t k) const {
  std::int64_t at = offset;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::uint64_t>(shape[d]);
    at += static_cast<std::int64_t>(k % extent) * strides[d];
    k /= extent;
  }
  return static_cast<Index>(at);
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

void ArrayGraph::require(NodeId id) const {
  if (id >= nodes_.size())
    throw Error(ErrorCode::InvalidArgument, "trace: expected a node of this graph, which has " +
                                                std::to_string(nodes_.size()) + ", got number " +
                                                std::to_string(id));
}

NodeId ArrayGraph::append(Node node) {
  if (node.size > std::numeric_limits<Index>::max())
    throw Error(ErrorCode::InvalidArgument, "trace: expected arrays of fewer than 2^32 elements");
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId ArrayGraph::unknowns(Index first, std::size_t count) {
  return append(
      {.kind = Kind::unknowns, .first = first, .size = count, .operands = {}, .lists = {}});
}

NodeId ArrayGraph::numbers(std::vector<double> values) {
  const std::size_t size = values.size();
  return append(
      {.kind = Kind::numbers, .size = size, .operands = {}, .lists = listed(std::move(values))});
}

NodeId ArrayGraph::scalar(double number) {
  return append({.kind = Kind::scalar, .number = number, .operands = {}, .lists = {}});
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
  return append(
      {.kind = Kind::apply, .op = op, .size = size, .operands = std::move(operands), .lists = {}});
}

NodeId ArrayGraph::gather(NodeId source, std::vector<Index> positions) {
  const std::size_t size = nodes_.at(source).size;
  if (std::ranges::any_of(positions, [&](Index p) { return p >= size; }))
    throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
  const std::size_t count = positions.size();
  return append({.kind = Kind::gather,
                 .size = count,
                 .operands = {{source, {}}},
                 .lists = listed({}, {}, std::move(positions))});
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
            .lists = listed({}, std::move(parts), std::move(positions))};
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
                 .extent = extent,
                 .operands = {std::move(operand)},
                 .lists = {}});
}

NodeId ArrayGraph::accumulate(ir::Op op, const View& operand) {
  if (operand.layout.shape.empty())
    throw Error(ErrorCode::Shape, "trace: an accumulation needs an axis");
  View part = operand;
  const std::int64_t extent = part.layout.shape[0], stride = part.layout.strides[0];
  part.layout.shape.pop_front();
  part.layout.strides.pop_front();
  check(operand);
  const std::size_t width = part.layout.size();
  const auto steps = static_cast<std::size_t>(extent);
  const Layout whole = Layout{{static_cast<std::int64_t>(width)}, {1}, 0}.simplified();
  const View first = {operand.node, part.layout.simplified()};
  std::vector<NodeId> sources;
  std::vector<Index> parts, positions;
  sources.reserve(steps);
  parts.reserve(steps * width);
  positions.reserve(steps * width);
  for (std::size_t k = 0; k < steps; ++k) {
    if (k == 0) {
      sources.push_back(operand.node);
    } else {
      Node node{.kind = Kind::apply, .op = op, .size = width, .operands = {}, .lists = {}};
      node.operands.reserve(2);
      node.operands.push_back(k == 1 ? first : View{sources.back(), whole});
      node.operands.push_back(first);
      node.operands.back().layout.offset += static_cast<std::int64_t>(k) * stride;
      sources.push_back(append(std::move(node)));
    }
    for (std::size_t i = 0; i < width; ++i) {
      parts.push_back(static_cast<Index>(k));
      positions.push_back(k == 0 ? part.layout.element(i) : static_cast<Index>(i));
    }
  }
  const NodeId made = join(sources, std::move(parts), std::move(positions));
  accumulations_.push_back({made, op, operand, width});
  return made;
}

const ArrayGraph::Accumulation* ArrayGraph::accumulation(NodeId node) const {
  const auto found = std::ranges::lower_bound(accumulations_, node, {}, &Accumulation::node);
  return found != accumulations_.end() && found->node == node ? &*found : nullptr;
}

namespace {

/// Elements of a node from a position on, in the place of a stand-in.
struct NodeSlice {
  NodeId node = 0;
  Index shift = 0;
};

/// Makes a copied node read what stand-ins stand for.
void read_at(ArrayGraph::Node& node, std::size_t operand, const NodeSlice& slice) {
  node.operands[operand].node = slice.node;
  if (slice.shift == 0) return;
  if (node.kind == ArrayGraph::Kind::apply || node.kind == ArrayGraph::Kind::reduce) {
    node.operands[operand].layout.offset += slice.shift;
    return;
  }
  ArrayGraph::Lists moved = *node.lists;
  for (std::size_t k = 0; k < moved.positions.size(); ++k)
    if (node.kind == ArrayGraph::Kind::gather || moved.parts[k] == operand)
      moved.positions[k] += slice.shift;
  node.lists = std::make_shared<const ArrayGraph::Lists>(std::move(moved));
}

/// The nodes of a body: which differ from one repetition to the next, and what stands for each now.
class Body {
 public:
  Body(NodeId begin, std::size_t size) : begin_(begin), differs_(size, 0), now_(size) {
    for (std::size_t k = 0; k < size; ++k) now_[k].node = begin + static_cast<NodeId>(k);
  }

  void mark(NodeId id) { differs_.at(id - begin_) = 1; }
  bool differs(NodeId id) const { return id >= begin_ && differs_[id - begin_] != 0; }
  void put(NodeId id, NodeSlice slice) { now_[id - begin_] = slice; }
  NodeSlice at(NodeId id) const { return id < begin_ ? NodeSlice{id, 0} : now_[id - begin_]; }

  ArrayGraph::Node copy_of(const ArrayGraph::Node& node) const {
    ArrayGraph::Node copy = node;
    for (std::size_t k = 0; k < copy.operands.size(); ++k)
      read_at(copy, k, at(copy.operands[k].node));
    return copy;
  }

 private:
  NodeId begin_;
  std::vector<std::uint8_t> differs_;
  std::vector<NodeSlice> now_;
};

/// Values of `size` elements, one after the other.
NodeId joined(ArrayGraph& graph, const std::vector<NodeSlice>& values, Index size) {
  std::vector<NodeId> sources;
  std::vector<Index> parts, positions;
  for (const NodeSlice& value : values) {
    for (Index i = 0; i < size; ++i) {
      parts.push_back(static_cast<Index>(sources.size()));
      positions.push_back(value.shift + i);
    }
    sources.push_back(value.node);
  }
  return graph.join(sources, std::move(parts), std::move(positions));
}

}  // namespace

std::vector<NodeId> ArrayGraph::differing(NodeId begin, const std::vector<Sliced>& sliced,
                                          const std::vector<Carried>& carried) const {
  Body body(begin, nodes_.size() - begin);
  for (const Sliced& s : sliced) body.mark(s.stand_in);
  for (const Carried& c : carried) body.mark(c.stand_in);
  std::vector<NodeId> out;
  for (NodeId id = begin; id < nodes_.size(); ++id) {
    const auto reads = [&](const View& view) { return body.differs(view.node); };
    if (body.differs(id) || !std::ranges::any_of(nodes_[id].operands, reads)) continue;
    body.mark(id);
    out.push_back(id);
  }
  if (std::ranges::any_of(sliced, [&](const Sliced& s) { return body.differs(s.source); }))
    throw Error(ErrorCode::Unsupported,
                "scan: elements of an array that differs from step to step are looked up by the "
                "number of the step");
  return out;
}

std::vector<NodeId> ArrayGraph::repeat(NodeId begin, std::size_t count,
                                       const std::vector<Sliced>& sliced,
                                       const std::vector<Carried>& carried) {
  if (begin > nodes_.size()) throw Error(ErrorCode::InvalidArgument, "trace: nodes out of range");
  for (const Sliced& s : sliced) {
    const std::uint64_t last = s.first + (std::max<std::uint64_t>(count, 1) - 1) * s.step;
    if (count > 0 && last + nodes_.at(s.stand_in).size > nodes_.at(s.source).size)
      throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
  }
  for (const Carried& c : carried)
    if (nodes_.at(c.result).size != nodes_.at(c.start).size)
      throw Error(ErrorCode::Shape, "scan: a state of " + std::to_string(nodes_[c.start].size) +
                                        " numbers becomes one of " +
                                        std::to_string(nodes_[c.result].size));
  const std::vector<NodeId> copied = differing(begin, sliced, carried);
  Body body(begin, nodes_.size() - begin);
  std::vector<std::vector<NodeSlice>> values;  // of each carried one
  for (const Carried& c : carried) values.push_back({{c.start, 0}});
  for (std::size_t k = 0; k < count; ++k) {
    for (const Sliced& s : sliced)
      body.put(s.stand_in, {s.source, s.first + static_cast<Index>(k) * s.step});
    for (std::size_t c = 0; c < carried.size(); ++c)
      body.put(carried[c].stand_in, values[c].back());
    for (const NodeId id : copied) body.put(id, {append(body.copy_of(nodes_[id])), 0});
    for (std::size_t c = 0; c < carried.size(); ++c)
      values[c].push_back(body.at(carried[c].result));
  }
  std::vector<NodeId> out;
  for (std::size_t c = 0; c < carried.size(); ++c)
    out.push_back(joined(*this, values[c], static_cast<Index>(nodes_[carried[c].start].size)));
  return out;
}

std::vector<std::pair<NodeId, Index>> ArrayGraph::copy(NodeId begin, NodeId end,
                                                       const std::vector<Given>& given,
                                                       const std::vector<NodeId>& results) {
  if (begin > end || end > nodes_.size())
    throw Error(ErrorCode::InvalidArgument, "trace: nodes out of range");
  Body body(begin, end - begin);
  for (const Given& g : given) {
    if (g.shift + nodes_.at(g.stand_in).size > nodes_.at(g.node).size)
      throw Error(ErrorCode::InvalidArgument, "trace: index out of range");
    body.mark(g.stand_in);
    body.put(g.stand_in, {g.node, g.shift});
  }
  for (NodeId id = begin; id < end; ++id) {
    const auto reads = [&](const View& view) { return body.differs(view.node); };
    if (body.differs(id) || !std::ranges::any_of(nodes_[id].operands, reads)) continue;
    body.mark(id);
    body.put(id, {append(body.copy_of(nodes_[id])), 0});
  }
  std::vector<std::pair<NodeId, Index>> out;
  for (const NodeId result : results) {
    require(result);
    const NodeSlice slice = result < end ? body.at(result) : NodeSlice{result, 0};
    out.emplace_back(slice.node, slice.shift);
  }
  return out;
}

void ArrayGraph::share(NodeId id) {
  require(id);
  const auto at = std::ranges::lower_bound(shared_, id);
  if (at == shared_.end() || *at != id) shared_.insert(at, id);
}

std::vector<std::uint8_t> ArrayGraph::read_by(NodeId root) const {
  std::vector<std::uint8_t> needed(root + std::size_t{1}, 0);
  needed[root] = 1;
  for (std::size_t id = needed.size(); id-- > 0;) {
    if (needed[id] == 0) continue;
    for (const View& view : nodes_[id].operands) needed[view.node] = 1;
  }
  return needed;
}

bool ArrayGraph::reads_shared(NodeId root) const {
  if (shared_.empty()) return false;
  const std::vector<std::uint8_t> needed = read_by(root);
  return std::ranges::any_of(shared_,
                             [&](NodeId id) { return id < needed.size() && needed[id] != 0; });
}

std::size_t ArrayGraph::operations(NodeId root) const {
  require(root);
  const std::vector<std::uint8_t> needed = read_by(root);
  std::size_t count = 0;
  for (std::size_t id = 0; id < needed.size(); ++id) {
    const Node& node = nodes_[id];
    const bool computes = node.kind == Kind::apply || node.kind == Kind::reduce;
    if (needed[id] != 0 && computes) count += node.size * node.extent;
  }
  return count;
}

NodeId ArrayGraph::scaled(const View& view, double number, const std::optional<View>& factor) {
  const Extents& shape = view.layout.shape;
  const auto for_all = [&](const View& one) {
    const Layout same{shape, Extents(std::vector<std::int64_t>(shape.size(), 0)),
                      one.layout.offset};
    return View{one.node, same};
  };
  if (factor) {
    View by = *factor;
    if (number != 1) by = {apply(ir::Op::Mul, {by, {scalar(number), {}}}), {}};
    return apply(ir::Op::Mul, {view, for_all(by)});
  }
  if (number == -1) return apply(ir::Op::Neg, {view});
  if (number != 1) return apply(ir::Op::Mul, {view, for_all({scalar(number), {}})});
  if (view.layout.is_identity(nodes_[view.node].size)) return view.node;
  std::vector<Index> positions(view.layout.size());
  for (std::size_t k = 0; k < positions.size(); ++k) positions[k] = view.layout.element(k);
  return gather(view.node, std::move(positions));
}

std::vector<std::uint8_t> ArrayGraph::with_sums(NodeId root) const {
  std::vector<std::uint8_t> out(root + std::size_t{1}, 0);
  for (NodeId id = 0; id <= root; ++id) {
    const Node& node = nodes_[id];
    if (node.size != 1) continue;
    const auto of = [&](std::size_t k) { return out[node.operands[k].node] != 0; };
    if (node.kind == Kind::reduce)
      out[id] = node.op == ir::Op::Add && node.extent >= kFewTerms ? 1 : 0;
    if (node.kind != Kind::apply) continue;
    switch (node.op) {
      case ir::Op::Add:
      case ir::Op::Sub: out[id] = of(0) || of(1) ? 1 : 0; break;
      case ir::Op::Mul: out[id] = of(0) != of(1) ? 1 : 0; break;
      case ir::Op::Neg: out[id] = of(0) ? 1 : 0; break;
      case ir::Op::Div: out[id] = of(0) && !of(1) ? 1 : 0; break;
      default: break;
    }
  }
  return out;
}

NodeId ArrayGraph::summands(NodeId root) {
  require(root);
  const std::vector<std::uint8_t> sums = with_sums(root);
  if (sums[root] == 0) return root;
  /// A view, times a number and one element.
  struct Part {
    View view;
    double number = 1;
    std::optional<View> factor;
  };
  const auto number = [&](const View& view) {
    const Node& node = nodes_[view.node];
    return node.kind == Kind::scalar ? std::optional(node.number) : std::nullopt;
  };
  const auto times = [&](Part& part, const View& by, bool divides) {
    if (const std::optional<double> value = number(by)) {
      part.number = divides ? part.number / *value : part.number * *value;
    } else if (part.factor) {
      part.factor = View{apply(divides ? ir::Op::Div : ir::Op::Mul, {*part.factor, by}), {}};
    } else if (divides) {
      part.factor = View{apply(ir::Op::Div, {{scalar(1), {}}, by}), {}};
    } else {
      part.factor = by;
    }
  };
  std::vector<Part> left = {{{root, {}}, 1, {}}}, found;
  double constant = 0;
  while (!left.empty()) {
    Part part = std::move(left.back());
    left.pop_back();
    const Node& node = nodes_[part.view.node];
    const std::optional<double> value = number(part.view);
    if (value && !part.factor) {
      constant += part.number * *value;
    } else if (part.view.node > root || sums[part.view.node] == 0) {
      found.push_back(std::move(part));
    } else if (node.kind == Kind::reduce) {
      part.view = node.operands[0];
      found.push_back(std::move(part));
    } else if (node.op == ir::Op::Add || node.op == ir::Op::Sub) {
      const double sign = node.op == ir::Op::Add ? 1 : -1;
      left.push_back({node.operands[1], sign * part.number, part.factor});
      left.push_back({node.operands[0], part.number, part.factor});
    } else if (node.op == ir::Op::Neg) {
      left.push_back({node.operands[0], -part.number, part.factor});
    } else {
      const std::size_t at = sums[node.operands[0].node] != 0 ? 0 : 1;
      times(part, node.operands[1 - at], node.op == ir::Op::Div);
      part.view = node.operands[at];
      left.push_back(std::move(part));
    }
  }
  std::vector<NodeId> sources;
  std::vector<Index> parts, positions;
  for (const Part& part : found) {
    sources.push_back(scaled(part.view, part.number, part.factor));
    for (Index k = 0; k < nodes_[sources.back()].size; ++k) {
      parts.push_back(static_cast<Index>(sources.size() - 1));
      positions.push_back(k);
    }
  }
  const std::size_t count = parts.size();
  const NodeId all =
      sources.size() == 1 ? sources.front() : join(sources, std::move(parts), std::move(positions));
  if (constant == 0) return all;
  const auto n = static_cast<std::int64_t>(count);
  const NodeId share = scalar(constant / static_cast<double>(n));
  return apply(ir::Op::Add, {{all, {{n}, {1}, 0}}, {share, {{n}, {0}, 0}}});
}

std::vector<Index> ArrayGraph::unknowns_of(NodeId root) const {
  require(root);
  // Elements of each node that are needed: of single ones, or all.
  std::vector<std::set<Index>> needed(root + std::size_t{1});
  std::set<Index> out;
  const auto need_all = [&](NodeId id) {
    for (Index k = 0; k < nodes_[id].size; ++k) needed[id].insert(k);
  };
  need_all(root);
  for (std::size_t id = needed.size(); id-- > 0;) {
    const Node& node = nodes_[id];
    for (const Index k : needed[id]) {
      switch (node.kind) {
        case Kind::unknowns:
          if (!is_datum(node.first)) out.insert(node.first + k);
          break;
        case Kind::numbers:
        case Kind::scalar: break;
        case Kind::gather: needed[node.operands[0].node].insert(node.positions()[k]); break;
        case Kind::join:
          needed[node.operands[node.parts()[k]].node].insert(node.positions()[k]);
          break;
        case Kind::apply:
          for (const View& view : node.operands) needed[view.node].insert(view.layout.element(k));
          break;
        case Kind::reduce:
          for (std::size_t e = 0; e < node.extent; ++e)
            needed[node.operands[0].node].insert(
                node.operands[0].layout.element(k * node.extent + e));
      }
    }
    needed[id].clear();
  }
  return {out.begin(), out.end()};
}

void ArrayGraph::replace(NodeId id, std::vector<double> values) {
  Node& node = nodes_.at(id);
  if (node.kind != Kind::numbers || node.size != values.size())
    throw Error(ErrorCode::Shape, "trace: other numbers than those of the node");
  node.lists = listed(std::move(values));
}

void ArrayGraph::become_leaves(NodeId id, Index first) {
  Node& node = nodes_.at(id);
  node.kind = Kind::unknowns;
  node.first = first;
  node.lists = nullptr;
}

std::optional<std::vector<NodeId>> ArrayGraph::difference(NodeId root,
                                                          const ArrayGraph& other) const {
  if (root >= nodes_.size() || root >= other.nodes_.size()) return std::nullopt;
  std::vector<NodeId> out;
  for (NodeId id = 0; id <= root; ++id) {
    const Node &a = nodes_[id], &b = other.nodes_[id];
    const bool alike = a.kind == b.kind && a.op == b.op && a.size == b.size && a.first == b.first &&
                       a.extent == b.extent && same_bits(a.number, b.number) &&
                       a.operands == b.operands && a.parts() == b.parts() &&
                       a.positions() == b.positions();
    if (!alike) return std::nullopt;
    if (!std::ranges::equal(a.numbers(), b.numbers(), same_bits)) out.push_back(id);
  }
  return out;
}

namespace {

/// Marks elements at equal distances.
void mark_line(std::uint8_t* first, std::int64_t stride, std::size_t count) {
  if (stride == 1)
    std::fill_n(first, count, 1);
  else if (stride == -1)
    std::fill_n(first - (static_cast<std::int64_t>(count) - 1), count, 1);
  else
    for (std::size_t k = 0; k < (stride == 0 ? 1 : count); ++k, first += stride) *first = 1;
}

/// Marks the elements of a view, of which group k / extent is asked for, line by line.
void mark_some(const Layout& layout, std::span<const std::uint8_t> own, std::size_t extent,
               std::uint8_t* of) {
  const std::size_t inner =
      layout.shape.empty() ? 1 : static_cast<std::size_t>(layout.shape.back());
  const std::int64_t stride = layout.shape.empty() ? 0 : layout.strides.back();
  const std::size_t line = extent == 1 ? inner : inner % extent == 0 ? extent : 1;
  for (std::size_t k = 0; k < own.size() * extent; k += line) {
    const std::span<const std::uint8_t> asked =
        extent == 1 ? own.subspan(k, line) : own.subspan(k / extent, 1);
    const auto marked = static_cast<std::size_t>(std::ranges::count(asked, 1));
    if (marked == 0) continue;
    std::uint8_t* at = of + layout.element(k);
    if (marked == asked.size()) {
      mark_line(at, stride, line);
      continue;
    }
    for (const std::uint8_t one : asked) {
      if (one != 0) *at = 1;
      at += stride;
    }
  }
}

/// Terms of sums from which on their products are no elements of their own.
constexpr std::size_t kLeastTerms = 4;

/// For each node up to a root: 1 for products that one sum reads, in its order, at equal distances
/// of their factors.
std::vector<std::uint8_t> products_of_sums(const ArrayGraph& graph, NodeId root) {
  std::vector<std::uint8_t> out(root + std::size_t{1}, 0);
  std::vector<std::uint32_t> readers(root + std::size_t{1}, 0);
  for (NodeId id = 0; id <= root; ++id)
    for (const View& view : graph[id].operands) ++readers[view.node];
  for (NodeId id = 0; id <= root; ++id) {
    const ArrayGraph::Node& node = graph[id];
    if (node.kind != ArrayGraph::Kind::reduce || node.op != ir::Op::Add ||
        node.extent < kLeastTerms)
      continue;
    const NodeId product = node.operands[0].node;
    const ArrayGraph::Node& of = graph[product];
    const auto in_lines = [&](const View& view) {
      return view.layout.shape.empty() ||
             static_cast<std::size_t>(view.layout.shape.back()) % node.extent == 0;
    };
    out[product] = of.kind == ArrayGraph::Kind::apply && of.op == ir::Op::Mul &&
                   readers[product] == 1 && node.operands[0].layout.is_identity(of.size) &&
                   std::ranges::all_of(of.operands, in_lines);
  }
  return out;
}

}  // namespace

void Needed::need_factors(NodeId product, std::span<const std::uint8_t> sums, std::size_t terms) {
  for (const View& view : graph_[product].operands) {
    std::uint8_t* const of = needed_.data() + first_[view.node];
    const std::int64_t stride = view.layout.shape.empty() ? 0 : view.layout.strides.back();
    for (std::size_t k = 0; k < sums.size(); ++k)
      if (sums[k] != 0) mark_line(of + view.layout.element(k * terms), stride, terms);
  }
}

void Needed::need(const View& view) {
  const Layout& layout = view.layout;
  std::uint8_t* const of = needed_.data() + first_[view.node];
  const std::size_t line = layout.shape.empty() ? 1 : static_cast<std::size_t>(layout.shape.back());
  const std::int64_t stride = layout.shape.empty() ? 0 : layout.strides.back();
  for (std::size_t k = 0; k < layout.size(); k += line)
    mark_line(of + layout.element(k), stride, line);
}

void Needed::need_operands(NodeId id) {
  const ArrayGraph::Node& node = graph_[id];
  const std::span<const std::uint8_t> own = of(id);
  switch (node.kind) {
    case ArrayGraph::Kind::unknowns:
    case ArrayGraph::Kind::numbers:
    case ArrayGraph::Kind::scalar: return;
    case ArrayGraph::Kind::gather:
    case ArrayGraph::Kind::join:
      for (std::size_t k = 0; k < node.size; ++k) {
        if (own[k] == 0) continue;
        const std::size_t part = node.kind == ArrayGraph::Kind::join ? node.parts()[k] : 0;
        needed_[first_[node.operands[part].node] + node.positions()[k]] = 1;
      }
      return;
    case ArrayGraph::Kind::apply:
    case ArrayGraph::Kind::reduce:
      operations_ += count_[id] * (node.kind == ArrayGraph::Kind::apply ? 1 : node.extent - 1);
      if (const NodeId product = node.operands[0].node; is_of_sum(product)) {
        count_[product] = count_[id] * node.extent;
        operations_ += count_[product];
        need_factors(product, own, node.extent);
        return;
      }
      for (const View& view : node.operands) {
        if (count_[id] == node.size)
          need(view);
        else
          mark_some(view.layout, own, node.extent, needed_.data() + first_[view.node]);
      }
  }
}

Needed::Needed(const ArrayGraph& graph, NodeId root, std::span<const Index> rows,
               bool by_accumulations)
    : graph_(graph) {
  const std::size_t nodes = root + std::size_t{1};
  first_.resize(nodes + 1);
  const std::vector<std::uint8_t> are_of_sums = products_of_sums(graph, root);
  for (NodeId id = 0; id <= root; ++id)
    first_[id + 1] = first_[id] + (are_of_sums[id] != 0 ? 0 : graph[id].size);
  needed_.assign(first_[nodes], 0);
  count_.assign(nodes, 0);
  for (const Index row : rows) needed_[first_[root] + row] = 1;
  for (NodeId id = root + 1; id-- > 0;) {
    const std::span<const std::uint8_t> own = of(id);
    if (is_of_sum(id)) continue;
    count_[id] = static_cast<std::size_t>(std::ranges::count(own, 1));
    if (count_[id] == 0) continue;
    const ArrayGraph::Accumulation* const scan =
        by_accumulations ? graph.accumulation(id) : nullptr;
    if (scan != nullptr)
      need(scan->operand);
    else
      need_operands(id);
  }
}

}  // namespace topograd::python
