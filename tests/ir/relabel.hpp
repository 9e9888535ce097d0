// The same structure with other slots and another node order.
#pragma once

#include "../../ir/program.hpp"

#include <cstdint>

namespace topograd::test {

/// A program isomorphic to `program`: slots of each space permuted (with gaps between them), nodes
/// in another valid order, guards in another order.
ir::Program relabel(const ir::Program& program, std::uint64_t seed);

}  // namespace topograd::test
