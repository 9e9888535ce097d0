// Python's view of array graphs: operations that get their operands as views.
#include "bindings.hpp"

#include "../../ir/error.hpp"
#include "add_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace topograd::python {
namespace {

using Shape = std::vector<std::int64_t>;
using Positions = ArrayOf<std::int64_t>;

/// The view of one element; at -1 of a node that has one.
View element(NodeId node, std::int64_t at) {
  return {node, {{}, {}, std::max<std::int64_t>(at, 0)}};
}

/// A view of a node: its number and the position of one element; or its number, an array of bytes
/// that stands for the node's elements, and a view of that array. Nobody reads their memory.
View view_of(const py::tuple& operand) {
  const NodeId node = operand[0].cast<NodeId>();
  if (operand.size() == 2) return element(node, operand[1].cast<std::int64_t>());
  const Buffer whole(operand[1], PyBUF_SIMPLE), part(operand[2], PyBUF_STRIDES);
  const auto axes = static_cast<std::size_t>(part->ndim);
  Layout layout{Extents(Shape(part->shape, part->shape + axes)),
                Extents(Shape(part->strides, part->strides + axes)), 0};
  layout.offset = static_cast<const char*>(part->buf) - static_cast<const char*>(whole->buf);
  return {node, std::move(layout)};
}

ir::Op op_named(std::string_view name) {
  static const std::unordered_map<std::string_view, ir::Op> ops = [] {
    std::unordered_map<std::string_view, ir::Op> out;
    for (const ir::OpInfo& row : ir::kOps) out.emplace(row.name, row.op);
    return out;
  }();
  const auto found = ops.find(name);
  if (found == ops.end())
    throw Error(ErrorCode::InvalidArgument, "trace: unknown op " + std::string(name));
  return found->second;
}

/// The shape to which views broadcast. Throws Error{Shape}, worded as NumPy does.
Shape broadcast_shape(const std::vector<View>& views) {
  std::size_t axes = 0;
  for (const View& view : views) axes = std::max(axes, view.layout.shape.size());
  Shape out(axes, 1);
  for (const View& view : views) {
    const Extents& shape = view.layout.shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& extent = out[axes - shape.size() + d];
      if (shape[d] == 1 || shape[d] == extent) continue;
      if (extent != 1)
        throw Error(ErrorCode::Shape, "operands could not be broadcast together: an axis has " +
                                          std::to_string(extent) + " and " +
                                          std::to_string(shape[d]) + " elements");
      extent = shape[d];
    }
  }
  return out;
}

void broadcast(Layout& layout, const Shape& shape) {
  Layout out{Extents(shape), Extents(Shape(shape.size(), 0)), layout.offset};
  const std::size_t missing = shape.size() - layout.shape.size();
  for (std::size_t d = 0; d < layout.shape.size(); ++d)
    if (layout.shape[d] != 1) out.strides[missing + d] = layout.strides[d];
  layout = std::move(out);
}

/// Lets glibc's malloc() keep freed blocks of up to a few megabytes, from the first trace on.
///
/// By default it takes blocks of 128 kB and more from the system and returns them, until a larger
/// one was freed, as any process that frees an array of this size does (mallopt(3),
/// M_MMAP_THRESHOLD). A first fit makes and frees dozens of such blocks for graphs, tapes and
/// tables; the system's pages for them take longer than what is written to them. Nothing else
/// depends on it. The block's own pages are never touched.
void keep_freed_blocks() {
  static const bool kKept = [] {
    void* volatile block = std::malloc(std::size_t{8} << 20);
    std::free(block);
    return true;
  }();
  static_cast<void>(kKept);
}

/// A graph, and the ops by name.
struct Graph {
  ArrayGraph graph;

  Graph() { keep_freed_blocks(); }

  py::tuple apply(std::string_view op, const py::args& operands) {
    std::vector<View> views;
    for (const py::handle operand : operands) {
      if (PyFloat_Check(operand.ptr()) != 0) {
        views.push_back({graph.scalar(operand.cast<double>()), {}});
      } else {
        views.push_back(view_of(py::reinterpret_borrow<py::tuple>(operand)));
      }
    }
    const Shape shape = broadcast_shape(views);
    for (View& view : views) broadcast(view.layout, shape);
    const NodeId node = graph.apply(op_named(op), std::move(views));
    py::tuple extents(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) extents[d] = py::int_(shape[d]);
    return py::make_tuple(node, std::move(extents));
  }

  /// An op on two elements.
  NodeId pair(std::string_view op, NodeId a, std::int64_t at_a, NodeId b, std::int64_t at_b) {
    return graph.apply(op_named(op), {element(a, at_a), element(b, at_b)});
  }

  /// An op on an element and a number, which may be the first operand.
  NodeId with_number(std::string_view op, NodeId a, std::int64_t at, double number,
                     bool number_first) {
    const View value = element(a, at), other = {graph.scalar(number), {}};
    return number_first ? graph.apply(op_named(op), {other, value})
                        : graph.apply(op_named(op), {value, other});
  }

  NodeId reduce(std::string_view op, const py::tuple& operand, std::size_t extent) {
    return graph.reduce(op_named(op), view_of(operand), extent);
  }

  NodeId accumulate(std::string_view op, const py::tuple& operand) {
    return graph.accumulate(op_named(op), view_of(operand));
  }

  std::vector<NodeId> repeat(NodeId begin, std::size_t count,
                             const std::vector<std::tuple<NodeId, NodeId, Index, Index>>& sliced,
                             const std::vector<std::tuple<NodeId, NodeId, NodeId>>& carried) {
    std::vector<ArrayGraph::Sliced> slices;
    for (const auto& [stand_in, source, first, step] : sliced)
      slices.push_back({stand_in, source, first, step});
    std::vector<ArrayGraph::Carried> states;
    for (const auto& [stand_in, start, result] : carried)
      states.push_back({stand_in, start, result});
    return graph.repeat(begin, count, slices, states);
  }

  std::vector<std::pair<NodeId, Index>> copy(
      NodeId begin, NodeId end, const std::vector<std::tuple<NodeId, NodeId, Index>>& given,
      const std::vector<NodeId>& results) {
    std::vector<ArrayGraph::Given> stand_ins;
    for (const auto& [stand_in, node, shift] : given) stand_ins.push_back({stand_in, node, shift});
    return graph.copy(begin, end, stand_ins, results);
  }

  NodeId numbers(const Doubles& values) { return graph.numbers({values.begin(), values.end()}); }

  NodeId gather(NodeId source, const Positions& at) {
    return graph.gather(source, {at.begin(), at.end()});
  }

  NodeId join(const std::vector<NodeId>& sources, const Positions& parts, const Positions& at) {
    return graph.join(sources, {parts.begin(), parts.end()}, {at.begin(), at.end()});
  }
};

Bound model_of_function(Graph& graph, NodeId root, Memory x,
                        const std::vector<std::tuple<Index, Index, Index>>& blocks,
                        const py::object& loss, bool joins_rows, const std::vector<NodeId>& data) {
  graph.graph.require(root);
  for (const NodeId node : data) graph.graph.require(node);
  std::vector<UnknownArray> proposed;
  for (const auto& [first, width, count] : blocks) proposed.push_back({first, width, count});
  Bound bound;
  const Loss of_rows = loss_from(loss);
  const std::span<double> start = x.span();
  {
    const py::gil_scoped_release released;
    bound.model = model_of(graph.graph, root, start, proposed, of_rows, joins_rows, data);
  }
  bound.memory.push_back(std::move(x));
  return bound;
}

/// ρ, ρ′ and ρ″ at each s >= 0: shape (3, n).
py::object evaluate_loss(const Loss& loss, const Doubles& s) {
  const std::size_t count = s.size();
  NewArray<double> out({3, static_cast<py::ssize_t>(count)});
  for (std::size_t k = 0; k < count; ++k) {
    const std::array<double, 3> at = loss.evaluate(s.data()[k]);
    for (std::size_t row = 0; row < 3; ++row) out.data()[row * count + k] = at[row];
  }
  return out.array();
}

}  // namespace

void bind_graph(py::module_& module) {
  py::enum_<BlockKind>(module, "BlockKind", "What the numbers of blocks are to a problem.")
      .value("residual", BlockKind::residual)
      .value("energy", BlockKind::energy)
      .value("equality", BlockKind::equality)
      .value("inequality", BlockKind::inequality);
  py::class_<Loss>(module, "Loss", "A robust loss that was traced.")
      .def("evaluate", &evaluate_loss);
  py::class_<Graph>(module, "Graph", "Operations on whole arrays, in the order of their tracing.")
      .def(py::init<>())
      .def("unknowns",
           [](Graph& g, Index first, std::size_t count) { return g.graph.unknowns(first, count); })
      .def("numbers", &Graph::numbers)
      .def("scalar", [](Graph& g, double number) { return g.graph.scalar(number); })
      .def("apply", &Graph::apply)
      .def("pair", &Graph::pair)
      .def("with_number", &Graph::with_number)
      .def("reduce", &Graph::reduce)
      .def("accumulate", &Graph::accumulate)
      .def("repeat", &Graph::repeat)
      .def("copy", &Graph::copy)
      .def("unknowns_of", [](const Graph& g, NodeId node) { return g.graph.unknowns_of(node); })
      .def("summands",
           [](Graph& g, NodeId node) {
             const NodeId terms = g.graph.summands(node);
             return std::pair(terms, g.graph[terms].size);
           })
      .def("operations", [](const Graph& g, NodeId root) { return g.graph.operations(root); })
      .def("share", [](Graph& g, NodeId node) { g.graph.share(node); })
      .def("gather", &Graph::gather)
      .def("join", &Graph::join)
      .def("model", &model_of_function, py::arg("root"), py::arg("x"), py::arg("blocks"),
           py::arg("loss"), py::arg("joins_rows"), py::arg("data") = std::vector<NodeId>())
      .def("loss",
           [](const Graph& g, NodeId root) {
             g.graph.require(root);
             return traced_loss(g.graph, root);
           })
      .def(
          "add_blocks",
          [](Graph& g, Bound& bound, NodeId root, std::size_t width, const py::object& loss,
             const std::string& label, BlockKind kind, bool joins_sharing) {
            g.graph.require(root);
            const AddOptions options{.kind = kind,
                                     .loss = loss_from(loss),
                                     .label = label,
                                     .joins_sharing = joins_sharing};
            const py::gil_scoped_release released;
            return bound.model->add_blocks(g.graph, root, width, options);
          },
          py::arg("model"), py::arg("root"), py::arg("width"), py::arg("loss"), py::arg("label"),
          py::arg("kind"), py::arg("joins_sharing") = false)
      .def("limit", [](Graph& g, std::size_t operations) { g.graph.most_operations = operations; })
      .def("replace",
           [](Graph& g, NodeId node, const Doubles& values) {
             g.graph.replace(node, {values.begin(), values.end()});
           })
      .def("difference", [](const Graph& g, NodeId root,
                            const Graph& other) { return g.graph.difference(root, other.graph); })
      .def("size", [](const Graph& g) { return g.graph.size(); });
}

}  // namespace topograd::python
