// Reverse mode: adjoints from the outputs down to the parameters.
#include "../ir/error.hpp"
#include "rules.hpp"
#include "sweep.hpp"

#include <string>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::kNone;

// For each node of the builder's program: true if it depends on one of these parameter slots.
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

// Sums of the adjoint contributions to each node of the program.
class Adjoints {
 public:
  explicit Adjoints(Builder& builder) : builder_(builder), ids_(builder.size(), kNone) {}

  Expr operator[](Id node) const { return {&builder_, ids_[node]}; }
  void add(Id node, Expr term) {
    if (term.id == kNone) return;
    ids_[node] = ids_[node] == kNone ? term.id : ((*this)[node] + term).id;
  }

 private:
  Builder& builder_;
  std::vector<Id> ids_;
};

}  // namespace

void check_slots(const ir::Program& f, std::span<const std::uint32_t> slots) {
  for (std::uint32_t slot : slots) {
    if (slot < f.leaves.parameters) continue;
    throw Error(ErrorCode::InvalidArgument, "differentiate: expected parameter slots below " +
                                                std::to_string(f.leaves.parameters) + ", got " +
                                                std::to_string(slot));
  }
}

std::vector<Id> reverse(Builder& builder, std::span<const Id> seeds,
                        std::span<const std::uint32_t> slots) {
  const std::vector<bool> active = depends_on(builder, slots);
  Adjoints adjoints(builder);
  for (std::size_t row = 0; row < seeds.size(); ++row) {
    adjoints.add(builder.outputs()[row], {&builder, seeds[row]});
  }
  std::vector<Id> of_slot(builder.leaves().parameters, kNone);
  for (Id id = builder.size(); id-- > 0;) {
    const Expr g = adjoints[id];
    if (g.id == kNone || !active[id]) continue;
    const ir::Node node = builder[id];
    if (node.op == ir::Op::Parameter) of_slot[node.slot()] = g.id;
    if (ir::is_leaf(node.op)) continue;
    const std::array<Partial, 3> by = partials(builder, id);
    for (std::size_t k = 0; k < node.operands().size(); ++k) {
      if (active[node.args[k]]) adjoints.add(node.args[k], pull(by[k], g));
    }
  }
  std::vector<Id> result;
  for (std::uint32_t slot : slots) result.push_back(of_slot[slot]);
  return result;
}

}  // namespace topograd::autodiff
