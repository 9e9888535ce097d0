// The passes before differentiation: folding, removal of unused nodes, guards as a program.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "../evaluate.hpp"
#include "../program.hpp"
#include "passes.hpp"
#include "rewrite.hpp"

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

std::vector<bool> needed_nodes(const Program& program) {
  std::vector<bool> needed(program.nodes.size());
  for (Id id : program.outputs) needed[id] = true;
  for (const Guard& g : program.guards) needed[g.condition] = true;
  for (Id id = static_cast<Id>(program.nodes.size()); id-- > 0;) {
    if (!needed[id]) continue;
    for (Id operand : program.nodes[id].operands()) needed[operand] = true;
  }
  return needed;
}

}  // namespace

Program fold(const Program& program) { return rewrite(program, "fold", fold_node); }

Program remove_dead(const Program& program) {
  const std::vector<bool> needed = needed_nodes(program);
  Program out{.leaves = program.leaves};
  out.nodes.reserve(static_cast<std::size_t>(std::count(needed.begin(), needed.end(), true)));
  std::vector<Id> map(program.nodes.size());
  for (Id id = 0; id < program.nodes.size(); ++id) {
    if (!needed[id]) continue;
    Node node = program.nodes[id];
    for (int k = 0; k < arity(node.op); ++k) node.args[k] = map[node.args[k]];
    map[id] = static_cast<Id>(out.nodes.size());
    out.nodes.push_back(node);
  }
  for (Id id : program.outputs) out.outputs.push_back(map[id]);
  for (const Guard& g : program.guards) out.guards.push_back({map[g.condition], g.expected});
  return checked(std::move(out), "remove_dead");
}

Program guard_failure(const Program& f) {
  Graph graph;
  const std::vector<Id> map = append(graph, f);
  Id failed = kNone;
  for (const Guard& guard : f.guards) {
    const Id opposite = graph.add(Op::Not, map[guard.condition]);
    const Id fails = guard.expected ? opposite : graph.add(Op::Not, opposite);
    failed = failed == kNone ? fails : graph.add(Op::Or, failed, fails);
  }
  if (failed == kNone) failed = graph.literal(0);
  return optimize(graph.extract(std::vector{failed}, f.leaves));
}

Program optimize(const Program& program) {
  // Rules only shorten a program or bring it closer to canonical form; few rounds are useful.
  constexpr int kRounds = 8;
  Program now = expand(program);
  for (int round = 0; round < kRounds; ++round) {
    Program next = simplify(fold(now));
    const bool settled = next == now;
    now = std::move(next);
    if (settled) break;
  }
  return now;
}

}  // namespace topograd::ir
