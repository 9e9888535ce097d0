// ArrayGraph: the operations on whole arrays that a Python function applied to its unknowns.
#pragma once

#include "../../ir/op.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::python {

/// Position of an element in an array, or index of an unknown in x.
using Index = std::uint32_t;

/// Leaves from here on are numbers of data arrays, in the order of adding, not unknowns of x.
inline constexpr Index kFirstDatum = Index{1} << 31;
inline bool is_datum(Index leaf) { return leaf >= kFirstDatum; }

/// Extents or strides of a view: none, for single elements, or a few, behind one pointer. Graphs
/// have many views of single elements.
class Extents {
 public:
  Extents() = default;
  Extents(std::initializer_list<std::int64_t> values) : Extents(values.begin(), values.end()) {}
  explicit Extents(const std::vector<std::int64_t>& values)
      : Extents(values.data(), values.data() + values.size()) {}
  Extents(const Extents& other) : Extents(other.begin(), other.end()) {}
  Extents(Extents&&) noexcept = default;
  Extents& operator=(const Extents& other) { return *this = Extents(other); }
  Extents& operator=(Extents&&) noexcept = default;
  ~Extents() = default;

  std::size_t size() const { return values_ ? static_cast<std::size_t>(values_[0]) : 0; }
  bool empty() const { return !values_; }
  std::int64_t* begin() { return values_ ? values_.get() + 1 : nullptr; }
  std::int64_t* end() { return begin() + size(); }
  const std::int64_t* begin() const { return values_ ? values_.get() + 1 : nullptr; }
  const std::int64_t* end() const { return begin() + size(); }
  std::int64_t& operator[](std::size_t d) { return values_[d + 1]; }
  std::int64_t operator[](std::size_t d) const { return values_[d + 1]; }
  std::int64_t& back() { return values_[size()]; }
  std::int64_t back() const { return values_[size()]; }
  void push_back(std::int64_t value);
  void pop_front() { *this = Extents(begin() + 1, end()); }
  bool operator==(const Extents& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  Extents(const std::int64_t* first, const std::int64_t* last);

  std::unique_ptr<std::int64_t[]> values_;  // their number first; null: none
};

/// Elements of an array in the order of another shape: element k of the view, counted row by row,
/// is element offset + Σ index_d strides_d of the array. Slices, transposes and broadcasts are
/// views.
struct Layout {
  Extents shape, strides;
  std::int64_t offset = 0;

  bool operator==(const Layout&) const = default;

  std::size_t size() const;
  /// The position in the array of element k of the view.
  Index element(std::uint64_t k) const;
  /// True if element k of the view is element k of an array with `size` elements.
  bool is_identity(std::size_t size) const;
  /// Calls f(k, element) for the elements of the view, in their order.
  template <class F>
  void for_elements(const F& f) const {
    const std::size_t axes = shape.size(), all = size();
    if (axes <= 1) {
      const std::int64_t stride = axes == 0 ? 0 : strides[0];
      std::int64_t at = offset;
      for (std::size_t k = 0; k < all; ++k, at += stride) f(k, static_cast<std::size_t>(at));
      return;
    }
    const auto inner = static_cast<std::size_t>(shape.back());
    const std::int64_t stride = strides.back();
    for (std::size_t k = 0; k < all; k += inner) {
      std::int64_t at = element(k);
      for (std::size_t j = 0; j < inner; ++j, at += stride) f(k + j, static_cast<std::size_t>(at));
    }
  }
  /// The same view with as few axes as possible.
  Layout simplified() const;
  /// True if all elements of the view are elements of an array that has so many.
  bool is_within(std::size_t elements) const;
};

/// A node of an ArrayGraph.
using NodeId = std::uint32_t;

/// A view of a node's elements.
struct View {
  NodeId node = 0;
  Layout layout;

  bool operator==(const View&) const = default;
};

/// An append-only graph: a node is an array, its elements are counted row by row, and operands
/// precede the nodes that use them. The cost of a node does not depend on the number of its
/// elements, except for lists of positions and numbers, which it stores.
class ArrayGraph {
 public:
  enum class Kind : std::uint8_t { unknowns, numbers, scalar, apply, gather, join, reduce };

  /// What some kinds of nodes have for each element.
  struct Lists {
    std::vector<double> numbers;   ///< numbers
    std::vector<Index> parts;      ///< join: operand that has the element
    std::vector<Index> positions;  ///< gather, join: position of the element in its operand
    bool operator==(const Lists&) const = default;
  };

  struct Node {
    Kind kind;
    ir::Op op = ir::Op::Literal;         ///< apply, reduce
    Index first = 0;                     ///< unknowns: index in x of element 0
    std::size_t size = 1;                ///< number of elements
    std::size_t extent = 1;              ///< reduce: elements of the operand for each element
    double number = 0;                   ///< scalar
    std::vector<View> operands;          ///< of apply: with the node's shape
    std::shared_ptr<const Lists> lists;  ///< null: none; copies of a node share them

    const std::vector<double>& numbers() const { return listed().numbers; }
    const std::vector<Index>& parts() const { return listed().parts; }
    const std::vector<Index>& positions() const { return listed().positions; }

   private:
    friend class ArrayGraph;
    const Lists& listed() const;
  };

  /// Unknowns first ... first + count - 1 of x.
  NodeId unknowns(Index first, std::size_t count);
  /// Numbers of an array: data of the residuals.
  NodeId numbers(std::vector<double> values);
  /// A number that a program has in its text; the same for all elements.
  NodeId scalar(double number);
  /// An operation on elements; all operands are views of the same shape. Throws Error{Shape} if
  /// their sizes differ or their number is not that of the operation's operands, and
  /// Error{InvalidArgument} for a view of more than its node has.
  NodeId apply(ir::Op op, std::vector<View> operands);
  /// Elements of a node by their positions. Throws Error{InvalidArgument} for one out of range.
  NodeId gather(NodeId source, std::vector<Index> positions);
  /// Elements of several nodes: element k is element positions[k] of node parts[k] in `sources`.
  NodeId join(const std::vector<NodeId>& sources, std::vector<Index> parts,
              std::vector<Index> positions);
  /// Combines groups of `extent` elements that follow one another in the view, by + * min or max.
  NodeId reduce(ir::Op op, View operand, std::size_t extent);

  /// Running results along the first axis of a view: element 0 of the axis, then each combined with
  /// the one before it.
  NodeId accumulate(ir::Op op, const View& operand);

  /// Records a call of accumulate().
  struct Accumulation {
    NodeId node;  ///< of the results
    ir::Op op;
    View operand;
    std::size_t width;  ///< elements of one step
  };
  /// Null if the node is none.
  const Accumulation* accumulation(NodeId node) const;

  /// An element or several of a node in each repetition of others: elements first + k step ... in
  /// repetition k.
  struct Sliced {
    NodeId stand_in, source;
    Index first, step;
  };
  /// A value that each repetition passes to the next one.
  struct Carried {
    NodeId stand_in, start, result;
  };
  /// Copies the nodes from `begin` on `count` times, with other nodes for stand-ins: nodes that
  /// stand for what differs from one repetition to the next. Nodes that read none of these are
  /// shared. Returns for each of `carried` a node of its count + 1 values, the start first.
  ///
  /// Throws Error{Shape} if a result is not as large as the start, and Error{InvalidArgument} for
  /// elements that a node does not have. Cost: linear in copied nodes.
  std::vector<NodeId> repeat(NodeId begin, std::size_t count, const std::vector<Sliced>& sliced,
                             const std::vector<Carried>& carried);

  /// Elements `shift`, `shift` + 1, ... of a node, in the place of a stand-in.
  struct Given {
    NodeId stand_in, node;
    Index shift;
  };
  /// Copies once the nodes begin ... end - 1 that read stand-ins, with what is given for these.
  /// Returns what `results` are then: a node, and the position of its first element.
  ///
  /// Throws Error{InvalidArgument} for elements that a node does not have. Cost: linear in the
  /// nodes begin ... end - 1.
  std::vector<std::pair<NodeId, Index>> copy(NodeId begin, NodeId end,
                                             const std::vector<Given>& given,
                                             const std::vector<NodeId>& results);

  /// Puts other numbers into a node of numbers. Throws Error{Shape} if they are not as many, or if
  /// the node is another one.
  void replace(NodeId id, std::vector<double> values);
  /// Makes a node of numbers one of leaves `first`, `first` + 1, ...
  void become_leaves(NodeId id, Index first);
  /// Nodes of numbers, up to a root, that differ from those of another graph; nothing if the graphs
  /// differ in something else.
  std::optional<std::vector<NodeId>> difference(NodeId root, const ArrayGraph& other) const;

  /// Throws Error{InvalidArgument} for a number that is not a node's.
  void require(NodeId id) const;
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  std::size_t size() const { return nodes_.size(); }

  /// Marks a node as one whose elements rows share.
  void share(NodeId id);
  /// True if the root reads a marked node.
  bool reads_shared(NodeId root) const;

  /// Terms that add up to a node of one element: those of its sums, also behind signs, factors, +
  /// and -, and what else is added to them, with numbers shared out. The node itself if it has no
  /// sum.
  NodeId summands(NodeId root);

  /// Operations on numbers that a node and what it reads take.
  std::size_t operations(NodeId root) const;

  /// Unknowns on which a node depends, ascending. Cost: linear in the nodes before it.
  std::vector<Index> unknowns_of(NodeId id) const;

  /// Operations of all different rows of a result together, above which group_rows() throws.
  std::size_t most_operations = std::numeric_limits<std::size_t>::max();

 private:
  NodeId append(Node node);
  /// For each node up to a root: whether the root reads it; the root does.
  std::vector<std::uint8_t> read_by(NodeId root) const;
  /// The elements of a view, times a number and one element.
  NodeId scaled(const View& view, double number, const std::optional<View>& factor);
  /// For each node up to a root: whether it is one number in which a sum can be taken apart.
  std::vector<std::uint8_t> with_sums(NodeId root) const;
  /// Throws Error{InvalidArgument} for a view of more than its node has.
  void check(const View& view) const;
  /// Nodes from `begin` on that read stand-ins, these not included. Throws Error{Unsupported} if
  /// what is sliced is among them.
  std::vector<NodeId> differing(NodeId begin, const std::vector<Sliced>& sliced,
                                const std::vector<Carried>& carried) const;

  std::deque<Node> nodes_;
  std::vector<NodeId> shared_;               // ascending
  std::vector<Accumulation> accumulations_;  // ascending
};

/// The elements of all nodes that some elements of a root need.
class Needed {
 public:
  ///   by_accumulations  running results are computed by accumulate(), from all of its operand
  ///
  /// Cost: linear in the elements of the nodes up to the root, a nanosecond each.
  Needed(const ArrayGraph& graph, NodeId root, std::span<const Index> rows, bool by_accumulations);

  std::size_t count(NodeId id) const { return count_[id]; }
  /// True for products that are added up as they are computed, by the one sum that reads them. They
  /// are not looked at one by one.
  bool is_of_sum(NodeId id) const {
    return first_[id] == first_[id + std::size_t{1}] && graph_[id].size > 0;
  }
  /// Each element of a node: 1 if it is needed, else 0.
  std::span<const std::uint8_t> of(NodeId id) const {
    return std::span(needed_).subspan(first_[id], first_[id + std::size_t{1}] - first_[id]);
  }
  /// Operations on numbers that compute these elements.
  std::size_t operations() const { return operations_; }

 private:
  void need(const View& view);
  void need_operands(NodeId id);
  void need_factors(NodeId product, std::span<const std::uint8_t> sums, std::size_t terms);

  const ArrayGraph& graph_;
  std::vector<std::size_t> first_, count_;  // by node
  std::vector<std::uint8_t> needed_;        // by element
  std::size_t operations_ = 0;
};

}  // namespace topograd::python
