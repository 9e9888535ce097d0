// Forward mode, reverse mode, and Jacobians by whichever leaves fewer operations.
#include "sweep.hpp"

#include <string>

#include "../ir/error.hpp"
#include "../ir/passes/passes.hpp"
#include "derivatives.hpp"
#include "rules.hpp"

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

enum class Mode { Forward, Reverse };

// J by rows, kNone for structural zeros.
std::vector<Id> entries(Builder& builder, Slots slots, Mode mode) {
  const std::size_t rows = builder.outputs().size();
  const Id one = builder.graph().literal(1);
  std::vector<Id> jacobian(rows * slots.size(), kNone);
  if (mode == Mode::Reverse) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<Id> seeds(rows, kNone);
      seeds[row] = one;
      const std::vector<Id> adjoints = reverse(builder, seeds, slots);
      std::copy(adjoints.begin(), adjoints.end(), jacobian.begin() + row * slots.size());
    }
    return jacobian;
  }
  for (std::size_t k = 0; k < slots.size(); ++k) {
    std::vector<Id> tangents(builder.leaves().parameters, kNone);
    tangents[slots[k]] = one;
    const std::vector<Id> column = forward(builder, tangents);
    for (std::size_t row = 0; row < rows; ++row) jacobian[row * slots.size() + k] = column[row];
  }
  return jacobian;
}

ir::Program in_mode(const ir::Program& f, Slots slots, bool with_residual, Mode mode) {
  Builder builder(f);
  std::vector<Id> outputs;
  if (with_residual) outputs = builder.outputs();
  const std::vector<Id> jacobian = entries(builder, slots, mode);
  outputs.insert(outputs.end(), jacobian.begin(), jacobian.end());
  return builder.extract(outputs, builder.leaves());
}

// A mode costs about `sweeps` times f's nodes before simplification. It is not tried if that is
// this many times the cost of the other mode.
constexpr std::size_t kHopeless = 16;

ir::Program best(const ir::Program& f, Slots slots, bool with_residual) {
  check_slots(f, slots);
  const ir::Program primal = ir::optimize(f);
  const std::size_t rows = primal.outputs.size(), columns = slots.size();
  if (columns > kHopeless * rows) return in_mode(primal, slots, with_residual, Mode::Reverse);
  if (rows > kHopeless * columns) return in_mode(primal, slots, with_residual, Mode::Forward);
  ir::Program reverse = in_mode(primal, slots, with_residual, Mode::Reverse);
  ir::Program forward = in_mode(primal, slots, with_residual, Mode::Forward);
  const bool fewer = ir::operation_count(forward) < ir::operation_count(reverse);
  return fewer ? std::move(forward) : std::move(reverse);
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

using ir::Id;
using ir::kNone;

std::vector<bool> depends_on(const Builder& builder, std::span<const std::uint32_t> slots) {
  std::vector<bool> wanted(builder.leaves().parameters);
  for (std::uint32_t slot : slots) wanted[slot] = true;
  std::vector<bool> depends(builder.size());
  for (Id id = 0; id < builder.size(); ++id) {
    const ir::Node& node = builder[id];
    if (node.op == ir::Op::Parameter) depends[id] = wanted[node.slot()];
    for (Id operand : node.operands()) depends[id] = depends[id] || depends[operand];
  }
  return depends;
}

void Adjoints::add(Id node, Expr term) {
  if (term.id == kNone) return;
  Id& sum = ids_[node];
  const bool steep = builder_.is_steep(term.id) || (sum != kNone && builder_.is_steep(sum));
  sum = sum == kNone ? term.id : ((*this)[node] + term).id;
  if (steep) builder_.mark_steep(sum);
}

void check_slots(const ir::Program& f, std::span<const std::uint32_t> slots) {
  for (std::uint32_t slot : slots) {
    if (slot < f.leaves.parameters) continue;
    throw Error(ErrorCode::InvalidArgument, "differentiate: expected parameter slots below " +
                                                std::to_string(f.leaves.parameters) + ", got " +
                                                std::to_string(slot));
  }
}

void expect_scalar(const ir::Program& E) {
  if (E.outputs.size() == 1) return;
  throw Error(ErrorCode::Shape, "differentiate: expected a program with one output, got " +
                                    std::to_string(E.outputs.size()));
}

namespace {

// Propagates the adjoint of a node to its operands.
void propagate(Builder& builder, Id id, const std::vector<bool>& active, Adjoints& adjoints) {
  const Expr g = adjoints[id];
  const ir::Node node = builder[id];
  if (g.id == kNone || !active[id] || ir::is_leaf(node.op)) return;
  const std::array<Partial, 3> by = partials(builder, id);
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    if (active[node.args[k]]) adjoints.add(node.args[k], pull(by[k], g));
  }
}

}  // namespace

std::vector<Id> reverse(Builder& builder, std::span<const Id> seeds,
                        std::span<const std::uint32_t> slots,
                        const std::function<void(Id node, Adjoints& adjoints)>& visit) {
  const std::vector<bool> active = depends_on(builder, slots);
  Adjoints adjoints(builder);
  for (std::size_t row = 0; row < seeds.size(); ++row) {
    adjoints.add(builder.outputs()[row], {&builder, seeds[row]});
  }
  std::vector<Id> of_slot(builder.leaves().parameters, kNone);
  for (Id id = builder.size(); id-- > 0;) {
    propagate(builder, id, active, adjoints);
    if (visit) visit(id, adjoints);
    const ir::Node& node = builder[id];
    if (node.op == ir::Op::Parameter && active[id]) of_slot[node.slot()] = adjoints[id].id;
  }
  std::vector<Id> result;
  for (std::uint32_t slot : slots) result.push_back(of_slot[slot]);
  return result;
}

ir::Program jacobian(const ir::Program& f, Slots slots) { return best(f, slots, false); }

ir::Program residual_and_jacobian(const ir::Program& f, Slots slots) {
  return best(f, slots, true);
}

}  // namespace topograd::autodiff
