// Where a residual may have corners: second derivatives say nothing about the other side.
#pragma once

#include "../../ir/op.hpp"
#include "../../ir/program.hpp"

#include <algorithm>

namespace topograd {

/// True if a program has magnitudes, minima, choices, steps or operations made of these.
inline bool has_corners(const ir::Program& program) {
  return std::ranges::any_of(program.nodes, [](const ir::Node& node) {
    const ir::OpInfo& op = ir::info(node.op);
    return op.steps || op.boolean || op.composite || op.facts == ir::FactRule::magnitude ||
           op.facts == ir::FactRule::minimum || op.facts == ir::FactRule::maximum ||
           op.facts == ir::FactRule::choice;
  });
}

}  // namespace topograd
