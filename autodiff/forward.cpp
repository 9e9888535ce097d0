// Forward mode: tangents from the parameters up to the outputs.
#include "rules.hpp"
#include "sweep.hpp"

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::kNone;
using Kind = Partial::Kind;

// True if both sides of a choice have a tangent: one select instead of the sum of two.
bool is_choice(const Partial& a, const Partial& b) {
  const bool sides = a.kind == Kind::WhereTrue && b.kind == Kind::WhereFalse;
  const bool extremes = a.kind == Kind::Above && b.kind == Kind::Below;
  return (sides || extremes) && a.d.id == b.d.id;
}

Expr choose(const Partial& side, Expr a, Expr b) {
  const Expr zero = side.d.literal(0);
  const Expr first = a.id == kNone ? zero : a, second = b.id == kNone ? zero : b;
  const Expr chosen = select(side.d, first, second);
  if (side.kind == Kind::WhereTrue) return chosen;
  const Expr both = a.id == kNone ? b : b.id == kNone ? a : a + b;
  return select(side.at, 0.5 * both, chosen);
}

}  // namespace

Id tangent_of(Builder& builder, Id id, std::span<const Id> tangents) {
  const ir::Node node = builder[id];
  std::array<Expr, 3> t;
  bool active = false;
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    t[k] = {&builder, tangents[node.args[k]]};
    active = active || t[k].id != kNone;
  }
  if (!active) return kNone;
  const std::array<Partial, 3> by = partials(builder, id);
  Expr sum{&builder, kNone};
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    Expr term{&builder, kNone};
    if (k + 1 < t.size() && is_choice(by[k], by[k + 1])) {
      if (t[k].id != kNone || t[k + 1].id != kNone) term = choose(by[k], t[k], t[k + 1]);
      ++k;
    } else if (t[k].id != kNone) {
      term = push(by[k], t[k]);
    }
    if (term.id != kNone) sum = sum.id == kNone ? term : sum + term;
  }
  return sum.id;
}

std::vector<Id> forward(Builder& builder, std::span<const Id> tangents) {
  std::vector<Id> of_node(builder.size(), kNone);
  for (Id id = 0; id < builder.size(); ++id) {
    const ir::Node node = builder[id];
    of_node[id] =
        node.op == ir::Op::Parameter ? tangents[node.slot()] : tangent_of(builder, id, of_node);
  }
  std::vector<Id> result;
  for (Id output : builder.outputs()) result.push_back(of_node[output]);
  return result;
}

}  // namespace topograd::autodiff
