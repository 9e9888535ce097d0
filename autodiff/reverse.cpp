// Reverse mode: adjoints from the outputs down to the parameters.
#include "../ir/error.hpp"
#include "rules.hpp"
#include "sweep.hpp"

#include <string>

namespace topograd::autodiff {

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

}  // namespace topograd::autodiff
