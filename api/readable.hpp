// Simplifies programs for human readers.
#pragma once

#include "../ir/program.hpp"

namespace topograd {

/// A program that equals `program` as a formula of real numbers but is shorter: products and
/// quotients collect their numbers and powers, like terms are added, signs move outward.
///
/// Only for printing: unlike ir::simplify() it preserves neither rounding nor the behaviour of NaN,
/// infinities and signed zeros (a b / b becomes a); kernels are never made from it. Outputs keep
/// their order; guards are omitted. Cost: linear in the number of nodes.
ir::Program readable(const ir::Program& program);

}  // namespace topograd
