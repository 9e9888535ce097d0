// Every pass, on one screen. A pass takes a program and returns an equivalent one.
#pragma once

#include <topograd/ir/program.hpp>

namespace topograd::ir {

/// Writes composite ops with primitive ones; bit for bit the same values as the evaluator's.
Program expand(const Program& program);

/// Evaluates nodes whose operands are all literals, with the scalar evaluator in double.
/// Only valid where literals are read in double or the result is exact in float (0, 1, powers of
/// two ...): other nodes are kept, so that float and double kernels come from one program.
Program fold(const Program& program);

/// Algebraic rules. Contract: every rule keeps the bits of each output for all inputs, NaN,
/// infinities and signed zeros included (a NaN stays a NaN; its payload and sign may change), in
/// float and in double. Rules that do not are not here.
Program simplify(const Program& program);

/// Removes nodes that no output or guard needs.
Program remove_dead(const Program& program);

/// Orders nodes so that few values are live at a time (Sethi-Ullman numbers on the DAG); outputs
/// keep their order and every node its operands.
Program schedule(const Program& program);

/// expand, fold, simplify, remove_dead: until nothing changes (bounded). What derivatives are taken
/// of.
Program optimize(const Program& program);

}  // namespace topograd::ir
