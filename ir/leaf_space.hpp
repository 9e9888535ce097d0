// The numbers that a leaf reads.
#pragma once

#include "op.hpp"

namespace topograd::ir {

/// The member of `spaces`, such as Inputs, that the slots of this kind of leaf count; null for
/// literals and operations.
template <class Spaces>
constexpr auto* leaf_space(Op op, Spaces& spaces) {
  return op == Op::Parameter ? &spaces.parameters
         : op == Op::Data    ? &spaces.data
         : op == Op::Uniform ? &spaces.uniforms
         : op == Op::Tangent ? &spaces.tangents
         : op == Op::Seed    ? &spaces.seeds
                             : nullptr;
}

}  // namespace topograd::ir
