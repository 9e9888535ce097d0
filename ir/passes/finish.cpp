// Rules for programs of which no further derivative is taken.
#include "passes.hpp"
#include "rewrite.hpp"

#include <algorithm>

namespace topograd::ir {
namespace {

bool is_zero(const Node& node) { return node.op == Op::Literal && node.literal() == 0; }

/// True if the comparison decides whether `d` is 0.
bool compares_with_zero(const Graph& graph, const Node& comparison, Id d) {
  const Id a = comparison.args[0], b = comparison.args[1];
  return (a == d && is_zero(graph[b])) || (b == d && is_zero(graph[a]));
}

/// zmul(d, x), chosen where d is 0, is +0.
bool is_zero_product(const Graph& graph, const Node& comparison, Id chosen) {
  const Node& product = graph[chosen];
  return product.op == Op::Zmul && compares_with_zero(graph, comparison, product.args[0]);
}

Id finished(Graph& graph, const Node& node) {
  if (node.op != Op::Select) return graph.intern(node);
  const Node comparison = graph[node.args[0]];
  Node out = node;
  if (comparison.op == Op::Eq && is_zero_product(graph, comparison, node.args[1]))
    out.args[1] = graph.literal(0);
  if (comparison.op == Op::Ne && is_zero_product(graph, comparison, node.args[2]))
    out.args[2] = graph.literal(0);
  return graph.intern(out);
}

/// Most programs have nothing to leave out, and are not made anew.
bool chooses_products(const Program& program) {
  return std::ranges::any_of(program.nodes, [&](const Node& node) {
    return node.op == Op::Select && (program.nodes[node.args[1]].op == Op::Zmul ||
                                     program.nodes[node.args[2]].op == Op::Zmul);
  });
}

}  // namespace

Program finish(const Program& program) {
  if (!chooses_products(program)) return program;
  return rewrite(program, "finish", finished);
}

}  // namespace topograd::ir
