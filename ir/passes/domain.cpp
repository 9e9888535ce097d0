// Domains of ops: clamping operands to them, and finding operands outside.
#include "passes.hpp"
#include "rewrite.hpp"

#include <cmath>
#include <optional>

namespace topograd::ir {
namespace {

bool divides(Op op) { return op == Op::Div || op == Op::Reciprocal; }

/// The operand that an op divides by.
Id divisor(const Node& node) { return node.args[node.op == Op::Div ? 1 : 0]; }

/// Clamps the first operand to its domain, at least epsilon from its ends.
Id inside(Graph& g, Id a, const Domain& domain, double epsilon) {
  if (std::isfinite(domain.min)) a = g.add(Op::Max, a, g.literal(domain.min + epsilon));
  if (std::isfinite(domain.max)) a = g.add(Op::Min, a, g.literal(domain.max - epsilon));
  return a;
}

/// b, or epsilon with b's sign where |b| is smaller.
Id away_from_zero(Graph& g, Id b, double epsilon) {
  const Id zero = g.literal(0), small = g.add(Op::Lt, g.add(Op::Abs, b), g.literal(epsilon));
  const Id above = g.literal(epsilon), below = g.literal(-epsilon);
  const Id least = g.add(Op::Select, g.add(Op::Lt, b, zero), below, above);
  return g.add(Op::Select, small, least, b);
}

/// Conditions on a program's nodes; nothing stands for "always".
class Conditions {
 public:
  explicit Conditions(Graph& graph) : graph_(graph) {}

  std::optional<Id> both(std::optional<Id> a, std::optional<Id> b) {
    if (!a) return b;
    return b ? std::optional(graph_.add(Op::And, *a, *b)) : a;
  }
  Id either(Id a, Id b) { return graph_.add(Op::Or, a, b); }

 private:
  Graph& graph_;
};

/// The condition under which an output depends on a node through the chosen sides of selects.
struct Use {
  bool used = false;
  std::optional<Id> when;  ///< nothing: always
};

void add_use(Conditions& conditions, Use& use, std::optional<Id> when) {
  if (!use.used) {
    use = {true, when};
  } else if (use.when) {
    use.when = when ? std::optional(conditions.either(*use.when, *when)) : std::nullopt;
  }
}

std::vector<Use> uses(Graph& graph, const Program& program) {
  Conditions conditions(graph);
  std::vector<Use> all(program.nodes.size());
  for (const Id output : program.outputs) all[output] = {true, std::nullopt};
  for (Id id = static_cast<Id>(program.nodes.size()); id-- > 0;) {
    if (!all[id].used) continue;
    const Node node = program.nodes[id];
    const std::optional<Id> when = all[id].when;
    for (std::size_t k = 0; k < node.operands().size(); ++k) {
      std::optional<Id> here = when;
      if (node.op == Op::Select && k == 1) here = conditions.both(when, node.args[0]);
      if (node.op == Op::Select && k == 2)
        here = conditions.both(when, graph.add(Op::Not, node.args[0]));
      add_use(conditions, all[node.args[k]], here);
    }
  }
  return all;
}

/// The condition that a node's operands are outside its domain, or nothing if they never are.
std::optional<Id> outside(Graph& g, const Node& node) {
  if (divides(node.op)) return g.add(Op::Eq, divisor(node), g.literal(0));
  const Id a = node.args[0];
  if (node.op == Op::Pow) {
    // A negative base with an exponent that is not a whole number.
    const Id whole = g.add(Op::Eq, node.args[1], g.add(Op::Floor, node.args[1]));
    const Id broken = g.add(Op::Not, whole);
    return g.add(Op::And, g.add(Op::Lt, a, g.literal(0)), broken);
  }
  const Domain& domain = info(node.op).domain;
  std::optional<Id> found;
  if (std::isfinite(domain.min))
    found = g.add(domain.min_open ? Op::Le : Op::Lt, a, g.literal(domain.min));
  if (std::isfinite(domain.max)) {
    const Id above = g.add(domain.max_open ? Op::Ge : Op::Gt, a, g.literal(domain.max));
    found = found ? g.add(Op::Or, *found, above) : above;
  }
  return found;
}

}  // namespace

Program guard_domains(const Program& program, double epsilon) {
  return rewrite(expand(program), "guard_domains", [epsilon](Graph& g, const Node& node) {
    if (is_leaf(node.op)) return g.intern(node);
    Node guarded = node;
    if (divides(node.op)) {
      guarded.args[node.op == Op::Div ? 1 : 0] = away_from_zero(g, divisor(node), epsilon);
    } else {
      guarded.args[0] = inside(g, node.args[0], info(node.op).domain, epsilon);
    }
    return g.add(guarded.op, guarded.args[0], guarded.args[1], guarded.args[2]);
  });
}

Program domain_errors(const Program& program) {
  Graph graph;
  append(graph, program);  // nodes keep their ids
  const std::vector<Use> all = uses(graph, program);
  Conditions conditions(graph);
  Id first = graph.literal(-1);
  for (Id id = static_cast<Id>(program.nodes.size()); id-- > 0;) {
    const Node& node = program.nodes[id];
    if (is_leaf(node.op) || !all[id].used) continue;
    const std::optional<Id> out = outside(graph, node);
    if (!out) continue;
    const std::optional<Id> wrong = conditions.both(out, all[id].when);
    first = graph.add(Op::Select, *wrong, graph.literal(id), first);
  }
  return graph.extract(std::span(&first, 1), program.leaves);
}

}  // namespace topograd::ir
