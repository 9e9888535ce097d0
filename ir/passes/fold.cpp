// Folding of nodes whose operands are all literals.
#include "../evaluate.hpp"
#include "passes.hpp"
#include "rewrite.hpp"

#include <bit>
#include <cmath>

namespace topograd::ir {
namespace {

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

template <class T>
T value_of(const Graph& g, const Node& node) {
  T x[3] = {};
  for (int k = 0; k < arity(node.op); ++k) x[k] = static_cast<T>(g[node.args[k]].literal());
  return apply<T>(node.op, x[0], x[1], x[2]);
}

// True for IEEE arithmetic: every machine computes the same bits.
bool correctly_rounded(Op op) {
  return !info(op).spelling.empty() || op == Op::Sqrt || op == Op::Rsqrt;
}

// A float kernel reads the result as float(value), which must be what it would have computed.
// Library functions differ in the last bits between machines, so their results are folded only if
// they are exact, that is if the wider type agrees: sin(0), exp(0), pow(2, 3).
bool foldable(const Graph& g, const Node& node, double value) {
  if (!same(static_cast<float>(value), value_of<float>(g, node))) return false;
  if (correctly_rounded(node.op) || std::isnan(value)) return true;
  return static_cast<long double>(value) == value_of<long double>(g, node) &&
         value == static_cast<double>(static_cast<float>(value));
}

Id fold_node(Graph& g, const Node& node) {
  if (is_leaf(node.op)) return g.intern(node);
  bool literals = true;
  for (Id operand : node.operands()) literals = literals && g[operand].op == Op::Literal;
  if (literals) {
    const double value = value_of<double>(g, node);
    if (foldable(g, node, value)) return g.literal(value);
  }
  return g.add(node.op, node.args[0], node.args[1], node.args[2]);
}

}  // namespace

Program fold(const Program& program) { return rewrite(program, "fold", fold_node); }

}  // namespace topograd::ir
