// Programs rewritten for people to read.
#pragma once

#include "../ir/program.hpp"

namespace topograd {

/// A program that is equal to `program` as a formula of real numbers, with less to read: products
/// and quotients collect their numbers and powers, like terms are added, signs move outward.
///
/// For print alone: unlike ir::simplify() it keeps neither roundings nor what NaN, infinities and
/// signed zeros do (a b / b becomes a), and kernels are never made of it. Outputs keep their
/// order; guards are left out. Cost: linear in the nodes.
ir::Program readable(const ir::Program& program);

}  // namespace topograd
