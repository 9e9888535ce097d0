// Traits of a growing graph, and extraction of programs.
#include "expression.hpp"

#include "../ir/passes/passes.hpp"

#include <array>

namespace topograd::autodiff {

Builder::Builder(const ir::Program& f) : guards_(f.guards), leaves_(f.leaves) {
  const std::vector<ir::Id> map = ir::append(graph_, f);
  size_ = static_cast<ir::Id>(graph_.size());
  for (ir::Id id : f.outputs) outputs_.push_back(map[id]);
  for (ir::Guard& guard : guards_) guard.condition = map[guard.condition];
}

const Traits& Builder::traits(ir::Id id) {
  while (traits_.size() < graph_.size()) {
    const ir::Node& node = graph_[static_cast<ir::Id>(traits_.size())];
    std::array<Traits, 3> operands;
    const std::span<const ir::Id> ids = node.operands();
    for (std::size_t k = 0; k < ids.size(); ++k) operands[k] = traits_[ids[k]];
    traits_.push_back(infer(node, std::span(operands).first(ids.size())));
  }
  return traits_[id];
}

ir::Program Builder::extract(std::span<const ir::Id> outputs, const ir::LeafCounts& leaves) {
  std::vector<ir::Id> ids(outputs.begin(), outputs.end());
  for (ir::Id& id : ids) {
    if (id == ir::kNone) id = graph_.literal(0);
  }
  return ir::optimize(graph_.extract(ids, leaves, guards_));
}

}  // namespace topograd::autodiff
