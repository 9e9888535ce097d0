// Random programs of arrays: evaluated as arrays, and node by node.
#include "../src/array_sweep.hpp"
#include "../src/row_groups.hpp"

#include "../../autodiff/node_sweep.hpp"
#include "../../ir/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace topograd::python {
namespace {

using ir::Op;

/// A graph of random operations on arrays of `size` numbers, or of several times as many.
class RandomArrays {
 public:
  explicit RandomArrays(unsigned seed)
      : random_(seed), size_(8 + below(40)), unknowns_(1 + below(20)) {
    nodes_ = {graph.unknowns(0, unknowns_), numbers()};
    for (int k = 0; k < 25; ++k) {
      nodes_.push_back(node(below(10)));
      if (below(6) == 0) nodes_.push_back(below(2) == 0 ? graph.scalar(number()) : numbers());
    }
    root = graph.apply(Op::Mul, {view(), view()});
  }

  ArrayGraph graph;
  NodeId root = 0;

  double number() { return below(10) == 0 ? 0.0 : normal_(random_); }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  NodeId any() { return nodes_[below(nodes_.size())]; }

  NodeId numbers() {
    std::vector<double> values(size_);
    for (double& v : values) v = number();
    return graph.numbers(values);
  }

  /// `size` elements of some node: a part, backward, transposed, or one for all.
  View view() {
    const NodeId id = any();
    const auto n = static_cast<std::int64_t>(size_),
               all = static_cast<std::int64_t>(graph[id].size);
    const auto start = [&](std::int64_t from) {
      return static_cast<std::int64_t>(below(static_cast<std::size_t>(from)));
    };
    if (all >= n && below(3) == 0) return {id, {{n}, {-1}, n - 1}};
    if (all >= n && n % 2 == 0 && below(4) == 0) return {id, {{n / 2, 2}, {1, n / 2}, 0}};
    if (all >= n) return {id, {{n}, {1}, start(all - n + 1)}};
    return {id, {{n}, {0}, start(all)}};
  }

  NodeId node(std::size_t kind) {
    constexpr std::array kOps = {Op::Add,  Op::Sub,    Op::Mul,        Op::Div, Op::Sin,
                                 Op::Exp,  Op::Square, Op::Neg,        Op::Max, Op::Atan2,
                                 Op::Tanh, Op::Abs,    Op::Select,     Op::Fma, Op::Log,
                                 Op::Lt,   Op::Cube,   Op::Reciprocal, Op::Sqrt};
    constexpr std::array kJoining = {Op::Add, Op::Mul, Op::Max};
    if (kind < 6) {
      const Op op = kOps[below(kOps.size())];
      std::vector<View> operands;
      for (int k = 0; k < ir::arity(op); ++k) operands.push_back(view());
      return graph.apply(op, operands);
    }
    if (kind == 6) {
      View of = view();
      if (size_ % 4 == 0 && below(2) == 0)
        of.layout = {{static_cast<std::int64_t>(size_ / 4), 4}, {0, 0}, 0};
      return graph.accumulate(kJoining[below(3)], of);
    }
    const NodeId id = any();
    const std::size_t all = graph[id].size;
    if (kind == 7) {
      const View whole = {id, {{static_cast<std::int64_t>(all)}, {1}, 0}};
      return graph.reduce(kJoining[below(3)], whole, all % 3 == 0 && below(2) == 0 ? all / 3 : all);
    }
    if (kind == 8) {
      std::vector<Index> positions(size_);
      for (Index& p : positions) p = static_cast<Index>(below(all));
      return graph.gather(id, positions);
    }
    const std::vector<NodeId> sources = {any(), any(), id};
    std::vector<Index> parts, positions;
    for (std::size_t k = 0; k < size_ * (1 + below(2)); ++k) {
      const bool continues = k > 0 && below(4) > 0;
      parts.push_back(continues ? parts.back() : static_cast<Index>(below(3)));
      const std::size_t end = graph[sources[parts.back()]].size;
      positions.push_back(
          static_cast<Index>(continues ? (positions.back() + 1) % end : below(end)));
    }
    return graph.join(sources, parts, positions);
  }

  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::size_t size_, unknowns_;
  std::vector<NodeId> nodes_;
};

/// The same rows as operations on numbers.
autodiff::NodeSweep node_by_node(const ArrayGraph& graph, NodeId root,
                                 const std::vector<Index>& rows,
                                 std::span<const std::uint32_t> parameters,
                                 std::vector<double>& data) {
  const RowGroup group = group_rows(graph, root, {rows.size(), rows}).front();
  ir::Graph out;
  std::vector<ir::Id> ids, outputs;
  for (const Step& s : group.steps) {
    if (s.op == Op::Parameter) {
      const auto slot = std::ranges::find(parameters, group.unknowns[s.a][0]) - parameters.begin();
      ids.push_back(out.leaf(Op::Parameter, static_cast<std::uint32_t>(slot)));
    } else if (s.op == Op::Data) {
      const DataColumn& column = group.data[s.a];
      ids.push_back(out.leaf(Op::Data, static_cast<std::uint32_t>(data.size())));
      data.push_back(column.values.empty() ? column.constant : column.values[0]);
    } else {
      ids.push_back(out.add(s.op, ids[s.a], ids[s.b], ids[s.c]));
    }
  }
  for (const std::uint32_t step : group.outputs) outputs.push_back(ids[step]);
  return autodiff::NodeSweep(
      out.extract(outputs, {.parameters = static_cast<std::uint32_t>(parameters.size()),
                            .data = static_cast<std::uint32_t>(data.size())}));
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Values, and the Jacobian (m, n) row by row with its columns.
struct Linearized {
  Linearized(std::size_t m, std::size_t n) : values(m), J(m * n) {
    for (std::size_t k = 0; k < n; ++k) columns.push_back({&J[k], n});
  }
  std::vector<double> values, J;
  std::vector<autodiff::NodeSweep::Column> columns;
};

ir::Inputs<double> inputs(std::span<const double> x, std::span<const double> data) {
  return {.parameters = x, .data = data, .uniforms = {}, .tangents = {}, .seeds = {}};
}

TEST(ArraySweep, HasTheBitsOfNodeSweep) {
  std::size_t made = 0, roots = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomArrays random(seed);
    const std::vector<std::uint8_t> reads = reading_elements(random.graph, random.root);
    std::vector<Index> rows;
    for (Index k = 0; k < reads.size(); ++k)
      if (reads[k] != 0) rows.push_back(k);
    if (rows.empty()) continue;
    const auto sweep = ArraySweep::make(random.graph, random.root, rows);
    if (!sweep) continue;
    const std::size_t m = rows.size(), n = sweep->parameters().size();
    if (autodiff::NodeSweep::prefers_reverse(m, n)) continue;
    ++made;
    std::vector<double> x(n), data, alone(m);
    const autodiff::NodeSweep reference =
        node_by_node(random.graph, random.root, rows, sweep->parameters(), data);
    for (double& v : x) v = random.number();
    const ir::Inputs<double> in = inputs(x, data);
    autodiff::NodeSweep::Workspace work;
    Linearized found(m, n), expected(m, n);
    reference.linearize(in, expected.values, expected.columns, work);
    sweep->evaluate(in, alone, work);
    EXPECT_TRUE(std::ranges::equal(alone, expected.values, same)) << seed;
    if (!sweep->linearize(in, found.values, found.columns, work)) {
      ++roots;
      continue;
    }
    EXPECT_TRUE(std::ranges::equal(found.values, expected.values, same)) << seed;
    EXPECT_TRUE(std::ranges::equal(found.J, expected.J, same)) << seed;
  }
  EXPECT_GT(made, 400U);
  EXPECT_GT(roots, 0U);
}

/// Sums of products as a graph: of numbers at distances of a matrix or a convolution, and of what
/// is one for all.
struct Sums {
  std::size_t groups, terms;
  unsigned layouts;  ///< two bits for each factor
  bool both_move, overflows;

  Layout layout(unsigned which) const {
    const auto g = static_cast<std::int64_t>(groups), t = static_cast<std::int64_t>(terms);
    if (which == 0) return {{g, t}, {1, -1}, t - 1};
    if (which == 1) return {{g, t}, {t, 1}, 0};
    if (which == 2) return {{g, t}, {0, 1}, 0};
    return {{g, t}, {1, 0}, 0};
  }
  /// An array with zeros at both ends, of which the middle reads unknowns 0 ... 2 or numbers.
  NodeId array(ArrayGraph& graph, unsigned which, bool moves) const {
    const std::size_t size = which == 1 ? groups * terms : groups + terms, edge = size / 3;
    std::vector<double> numbers(size - 2 * edge);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      numbers[k] = std::sin(static_cast<double>(3 * k + which)) * (k % 5 == 0 ? 0 : 1);
    if (overflows) numbers[numbers.size() / 2] = std::numeric_limits<double>::infinity();
    NodeId middle = graph.numbers(numbers);
    const auto n = static_cast<std::int64_t>(numbers.size());
    if (moves)
      for (const std::int64_t unknown : {0, 1, 2})
        middle = graph.apply(unknown == 1 ? Op::Add : Op::Mul,
                             {{middle, {{n}, {1}, 0}}, {x, {{n}, {0}, unknown}}});
    const NodeId zeros = graph.numbers(std::vector<double>(edge));
    std::vector<Index> parts, positions;
    for (std::size_t k = 0; k < size; ++k) {
      const Index part = k < edge ? 0 : k < size - edge ? 1 : 2;
      parts.push_back(part);
      positions.push_back(static_cast<Index>(k - (part == 0 ? 0 : part == 1 ? edge : size - edge)));
    }
    return graph.join({zeros, middle, zeros}, parts, positions);
  }
  NodeId make(ArrayGraph& graph) {
    x = graph.unknowns(0, 3);
    const unsigned first = layouts % 4, second = layouts / 4;
    const NodeId a = array(graph, first, true), b = array(graph, second, both_move);
    const NodeId products = graph.apply(Op::Mul, {{a, layout(first)}, {b, layout(second)}});
    const auto all = static_cast<std::int64_t>(groups * terms);
    return graph.reduce(Op::Add, {products, {{all}, {1}, 0}}, terms);
  }

  NodeId x = 0;
};

bool same_but_for_signs_of_zeros(double a, double b) { return a == b || same(a, b); }

TEST(ArraySweep, SumsProductsAsNodeSweepDoes) {
  std::size_t made = 0;
  for (const std::size_t groups : {2, 7, 8, 19})
    for (const std::size_t terms : {4, 7, 63, 64, 65, 200})
      for (unsigned kind = 0; kind < 64; ++kind) {
        Sums sums{groups, terms, kind % 16, kind / 16 % 2 == 1, kind / 32 == 1};
        ArrayGraph graph;
        const NodeId root = sums.make(graph);
        std::vector<Index> rows;  // not the first and not the last
        const std::vector<std::uint8_t> reads = reading_elements(graph, root);
        for (Index k = 1; k + 1 < groups; ++k)
          if (reads[k] != 0) rows.push_back(k);
        if (rows.empty()) continue;
        const auto sweep = ArraySweep::make(graph, root, rows);
        if (!sweep) continue;
        ++made;
        const std::size_t m = rows.size(), n = sweep->parameters().size();
        const std::array<double, 3> x = {0.7, -0.4, 1.3};
        std::vector<double> data;
        const autodiff::NodeSweep reference =
            node_by_node(graph, root, rows, sweep->parameters(), data);
        const ir::Inputs<double> in = inputs(x, data);
        autodiff::NodeSweep::Workspace work;
        Linearized found(m, n), expected(m, n);
        reference.linearize(in, expected.values, expected.columns, work);
        ASSERT_TRUE(sweep->linearize(in, found.values, found.columns, work));
        const auto text = [&] {
          return std::to_string(groups) + " x " + std::to_string(terms) + ", " +
                 std::to_string(kind);
        };
        EXPECT_TRUE(std::ranges::equal(found.values, expected.values, same_but_for_signs_of_zeros))
            << text();
        EXPECT_TRUE(std::ranges::equal(found.J, expected.J, same_but_for_signs_of_zeros)) << text();
      }
  EXPECT_GT(made, 800U);
}

}  // namespace
}  // namespace topograd::python
