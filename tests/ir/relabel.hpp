// The same structure written another way: other slots, other node order.
#pragma once

#include "../../ir/program.hpp"

#include <cstdint>

namespace topograd::test {

/// A program isomorphic to `program`: slots of each space permuted (with gaps between them), nodes
/// in another order that is possible, guards in another order.
ir::Program relabel(const ir::Program& program, std::uint64_t seed);

}  // namespace topograd::test
