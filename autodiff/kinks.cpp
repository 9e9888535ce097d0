// Kinks of scalar programs: their search, and derivatives by magnitudes.
#include "kinks.hpp"

#include "../ir/passes/passes.hpp"
#include "../ir/passes/simplify.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::kNone;
using ir::Op;

bool is_zero(const ir::Node& node) { return node.op == Op::Literal && node.literal() == 0; }

/// Finds the two numbers whose difference a magnitude is of.
class Differences {
 public:
  explicit Differences(const Builder& builder) : builder_(builder) {}

  using Key = std::pair<Id, Id>;  // the second is kNone for the magnitude of one number
  /// The key of abs(p).
  Key of(Id p) const {
    const ir::Node& node = builder_[p];
    if (node.op == Op::Neg) return of(node.args[0]);
    return node.op == Op::Sub ? of(node.args[0], node.args[1]) : Key{p, kNone};
  }
  /// The key of min(p, q) and max(p, q).
  Key of(Id p, Id q) const {
    if (is_zero(builder_[q])) return of(p);
    if (is_zero(builder_[p])) return of(q);
    return std::minmax(p, q);
  }

 private:
  const Builder& builder_;
};

Expr is_finite(Expr x) { return x - x == x.literal(0); }

/// Node ids above `first` that `target` depends on, ascending.
std::vector<Id> cone_of(const Builder& builder, Id target, Id first) {
  std::vector<Id> cone, open = {target};
  std::vector<bool> seen(std::size_t{target} + 1);
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (id < first || seen[id]) continue;
    seen[id] = true;
    cone.push_back(id);
    for (const Id operand : builder[id].operands()) open.push_back(operand);
  }
  std::ranges::sort(cone);
  return cone;
}

/// Replaces sqrt(a²) by |a|, and sqrt(s)² by s where s cannot be negative: equal up to rounding,
/// and smooth where the square is.
ir::Program without_squared_roots(const ir::Program& E) {
  ir::Graph graph;
  ir::FactTable facts(graph);
  std::vector<Id> map(E.nodes.size());
  bool changed = false;
  for (Id id = 0; id < map.size(); ++id) {
    const ir::Node& node = E.nodes[id];
    const Id a = ir::is_leaf(node.op) ? kNone : map[node.args[0]];
    const Id inner = a == kNone || ir::is_leaf(graph[a].op) ? kNone : graph[a].args[0];
    const bool root = node.op == Op::Sqrt && inner != kNone && graph[a].op == Op::Square;
    const bool square = node.op == Op::Square && inner != kNone && graph[a].op == Op::Sqrt;
    if (root) {
      map[id] = graph.add(Op::Abs, inner);
    } else if (square && facts[inner].sign_clear) {
      map[id] = inner;
    } else {
      map[id] = graph.copy(node, map);
      continue;
    }
    changed = true;
  }
  if (!changed) return E;
  std::vector<Id> outputs;
  for (const Id output : E.outputs) outputs.push_back(map[output]);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : E.guards) guards.push_back({map[guard.condition], guard.expected});
  return ir::optimize(graph.extract(outputs, E.leaves, guards));
}

/// The kinks of a program by the node at which the reverse sweep has all of their adjoints.
class KinksBySweep {
 public:
  KinksBySweep(Builder& builder, Slots slots)
      : active_(depends_on(builder, slots)), kinks_(find_kinks(builder, active_)) {
    for (std::size_t k = 0; k < kinks_.size(); ++k) at_[kinks_[k].members.front().node] = k;
  }
  bool is_active(Id id) const { return id != kNone && active_[id]; }
  const Kink* complete_at(Id node) const {
    const auto found = at_.find(node);
    return found == at_.end() ? nullptr : &kinks_[found->second];
  }

 private:
  std::vector<bool> active_;
  std::vector<Kink> kinks_;
  std::map<Id, std::size_t> at_;
};

/// Limits of a program's kinks. Long chains of kinks would make them grow with the square of their
/// number: beyond a bound, kinks have none.
class BoundedLimits {
 public:
  explicit BoundedLimits(Builder& builder) : builder_(builder) {}

  Expr derivative(const Kink& kink, Expr g) {
    constexpr std::size_t kMostNodes = 2, kFewNodes = 1000;
    if (made_ > kMostNodes * builder_.size() + kFewNodes) return {&builder_, kNone};
    const std::size_t before = builder_.graph().size();
    const Expr limit = derivative_by(builder_, kink, g);
    made_ += builder_.graph().size() - before;
    return limit;
  }

 private:
  Builder& builder_;
  std::size_t made_ = 0;  // nodes
};

/// Adds what the gradient's derivative needs at a kink to the adjoints of its operands.
class LimitTerms {
 public:
  LimitTerms(Builder& builder, const KinksBySweep& kinks)
      : builder_(builder), kinks_(kinks), limits_of_(builder) {}

  void add(const Kink& kink, Adjoints& adjoints) {
    const Expr g = adjoint_of(builder_, kink, adjoints);
    if (g.id == kNone) return;
    const Expr limit = limits_of_.derivative(kink, g);
    if (limit.id == kNone || is_zero(builder_[limit.id])) return;
    any_ = true;
    const Expr d = constant(finite_or_zero(limit)), at = is_at(builder_, kink);
    const auto put = [&](Id operand, Expr term) {
      if (kinks_.is_active(operand)) adjoints.add(operand, select(at, term, d.literal(0)));
    };
    const Expr a{&builder_, kink.a}, b{&builder_, kink.b};
    if (kink.kind == Kink::Kind::Root) {
      put(kink.a, 0.5 * d);
    } else if (kink.kind == Kink::Kind::Hypot) {
      put(kink.a, a * d);
      put(kink.b, b * d);
    } else if (kink.b == kNone) {
      put(kink.a, a * d);
    } else {
      const Expr term = (a - b) * d;
      put(kink.a, term);
      put(kink.b, -term);
    }
  }
  bool any() const { return any_; }
  const std::vector<Id>& limits() const { return limits_; }

 private:
  // Powers like |x|^1.5 have no limit: search_for_kinks() reports it.
  static Expr finite_or_zero(Expr limit) {
    if (limit.traits().grade != Grade::Wild) return limit;
    return select(is_finite(limit), limit, limit.literal(0));
  }

  /// A Seed leaf for the limit: it has no derivative.
  Expr constant(Expr limit) {
    if (builder_[limit.id].op == Op::Literal) return limit;
    limits_.push_back(limit.id);
    return {&builder_,
            builder_.graph().leaf(Op::Seed, static_cast<std::uint32_t>(limits_.size() - 1))};
  }

  Builder& builder_;
  const KinksBySweep& kinks_;
  BoundedLimits limits_of_;
  bool any_ = false;
  std::vector<Id> limits_;
};

}  // namespace

std::vector<Kink> find_kinks(Builder& builder, const std::vector<bool>& active) {
  const Differences differences(builder);
  std::vector<Kink> kinks;
  std::map<Differences::Key, std::size_t> by_key;
  const auto add_difference = [&](const Differences::Key& key, Id node, double weight) {
    const auto [found, added] = by_key.emplace(key, kinks.size());
    if (added)
      kinks.push_back(
          {.kind = Kink::Kind::Difference, .a = key.first, .b = key.second, .members = {}});
    kinks[found->second].members.push_back({node, weight});
  };
  for (Id id = 0; id < builder.size(); ++id) {
    if (!active[id]) continue;
    const ir::Node node = builder[id];
    const Id a = node.args[0], b = node.args[1];
    if (node.op == Op::Abs) {
      add_difference(differences.of(a), id, 1);
    } else if (node.op == Op::Min || node.op == Op::Max) {
      add_difference(differences.of(a, b), id, node.op == Op::Max ? 0.5 : -0.5);
    } else if (node.op == Op::Sqrt && builder.traits(a).nonnegative && !builder.traits(a).away) {
      kinks.push_back({.kind = Kink::Kind::Root, .a = a, .b = kNone, .members = {{id, 1}}});
    } else if (node.op == Op::Hypot) {
      kinks.push_back({.kind = Kink::Kind::Hypot, .a = a, .b = b, .members = {{id, 1}}});
    }
  }
  return kinks;
}

Expr is_at(Builder& builder, const Kink& kink) {
  const Expr a{&builder, kink.a};
  if (kink.kind != Kink::Kind::Difference) {
    const Expr length{&builder, kink.members.front().node};
    return length == length.literal(0);
  }
  return kink.b == kNone ? a == a.literal(0) : a == Expr{&builder, kink.b};
}

Expr adjoint_of(Builder& builder, const Kink& kink, const Adjoints& adjoints) {
  Expr sum{&builder, kNone};
  for (const Kink::Member& member : kink.members) {
    const Expr g = adjoints[member.node];
    if (g.id == kNone) continue;
    const Expr term = member.weight == 1 ? g : member.weight * g;
    sum = sum.id == kNone ? term : sum + term;
  }
  return sum;
}

Expr derivative_by(Builder& builder, const Kink& kink, Expr node) {
  std::vector<Id> tangents(std::size_t{node.id} + 1, kNone);
  for (const Id id : cone_of(builder, node.id, kink.members.front().node)) {
    const auto member = std::ranges::find(kink.members, id, &Kink::Member::node);
    tangents[id] = member == kink.members.end() ? tangent_of(builder, id, tangents)
                                                : builder.graph().literal(member->weight);
  }
  return {&builder, tangents[node.id]};
}

GradientWithLimits gradient_with_limits(const ir::Program& E, Slots slots) {
  expect_scalar(E);
  check_slots(E, slots);
  const ir::Program smooth = without_squared_roots(ir::optimize(E));
  Builder builder(smooth);
  const KinksBySweep kinks(builder, slots);
  LimitTerms terms(builder, kinks);
  const Id one = builder.graph().literal(1);
  const std::vector<Id> adjoints =
      reverse(builder, std::span(&one, 1), slots, [&](Id node, Adjoints& sums) {
        if (const Kink* kink = kinks.complete_at(node)) terms.add(*kink, sums);
      });
  if (!terms.any()) return {.gradient = jacobian(smooth, slots), .limits = {}};
  ir::LeafCounts leaves = builder.leaves();
  leaves.seeds = static_cast<std::uint32_t>(terms.limits().size());
  return {.gradient = builder.extract(adjoints, leaves),
          .limits = builder.extract(terms.limits(), leaves)};
}

ir::Program with_limits(const ir::Program& f, const ir::Program& limits) {
  if (limits.outputs.empty()) return f;
  ir::Graph graph;
  // A limit reads only those before it, which are complete when its first reader is copied.
  std::vector<Id> limit_of(limits.outputs.size(), kNone);
  const auto copied = [&](const ir::Node& node, std::span<const Id> map) {
    return node.op == Op::Seed ? limit_of[node.slot()] : graph.copy(node, map);
  };
  std::vector<Id> map(limits.nodes.size());
  for (Id id = 0; id < map.size(); ++id) {
    map[id] = copied(limits.nodes[id], map);
    for (std::size_t k = 0; k < limit_of.size(); ++k)
      if (limits.outputs[k] == id) limit_of[k] = map[id];
  }
  map.resize(f.nodes.size());
  for (Id id = 0; id < map.size(); ++id) map[id] = copied(f.nodes[id], map);
  std::vector<Id> outputs;
  for (const Id output : f.outputs) outputs.push_back(map[output]);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : f.guards) guards.push_back({map[guard.condition], guard.expected});
  ir::LeafCounts leaves = f.leaves;
  leaves.seeds = 0;
  return ir::optimize(graph.extract(outputs, leaves, guards));
}

KinkSearch search_for_kinks(const ir::Program& E, Slots slots, KinksSought sought) {
  expect_scalar(E);
  check_slots(E, slots);
  Builder builder(without_squared_roots(ir::optimize(E)));
  const KinksBySweep kinks(builder, slots);
  BoundedLimits limits(builder);
  KinkSearch found;
  Expr first{&builder, builder.graph().literal(-1)};
  const Id one = builder.graph().literal(1);
  reverse(builder, std::span(&one, 1), slots, [&](Id node, Adjoints& sums) {
    const Kink* const kink = kinks.complete_at(node);
    if (kink == nullptr) return;
    const Expr g = adjoint_of(builder, *kink, sums);
    if (g.id == kNone) return;
    Expr is_undecided{&builder, kNone};
    Expr limit{&builder, kNone};
    if (sought == KinksSought::falling) {
      is_undecided = g < g.literal(0);
    } else {
      if (kink->kind != Kink::Kind::Difference || sought == KinksSought::all) is_undecided = g;
      limit = limits.derivative(*kink, g);
    }
    if (limit.id != kNone && limit.traits().grade == Grade::Wild) {
      const Expr infinite = is_finite(limit).make(Op::Not);
      is_undecided = is_undecided.id == kNone ? infinite : is_undecided.make(Op::Or, infinite);
    }
    if (is_undecided.id == kNone) return;
    first = select(is_at(builder, *kink).make(Op::And, is_undecided),
                   g.literal(static_cast<double>(found.ops.size())), first);
    found.ops.push_back(builder[node].op);
  });
  found.program = builder.extract(std::span(&first.id, 1), builder.leaves());
  return found;
}

}  // namespace topograd::autodiff
