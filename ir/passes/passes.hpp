// Every pass, on one screen. A pass takes a program and returns an equivalent one.
#pragma once

#include "../program.hpp"

#include <cstddef>

namespace topograd::ir {

/// Writes composite ops with primitive ones; bit for bit the same values as the evaluator's.
Program expand(const Program& program);

/// Evaluates nodes whose operands are all literals, where the result is right for float and double
/// kernels alike: read as float it is what float arithmetic gives, and the library functions'
/// results are exact (sin(0), pow(2, 3)). Other nodes are kept, so that both kernels come from one
/// program and the same program comes out on every machine.
Program fold(const Program& program);

/// Algebraic rules. Contract: every rule keeps the bits of each output for all inputs, NaN,
/// infinities and signed zeros included (a NaN stays a NaN; its payload and sign may change), in
/// float and in double. Rules that do not are not here.
Program simplify(const Program& program);

/// Removes nodes that no output or guard needs.
Program remove_dead(const Program& program);

/// Orders nodes so that few values are live at a time (Sethi-Ullman numbers on the DAG); outputs
/// keep their order and every node its operands. Never more live values than before.
Program schedule(const Program& program);

/// Most values that are live at once when nodes are computed in order: leaves from where they
/// stand, outputs to the end, literals never.
std::size_t max_live(const Program& program);

/// Keeps operands inside the domains of their ops: with the ends [l, u] of the op table's domain of
/// the first operand, op(x) becomes op(min(max(x, l + epsilon), u - epsilon)), and a / b divides by
/// b or, where |b| < epsilon, by epsilon with b's sign. Derivatives are those of what it writes.
Program guard_domains(const Program& program, double epsilon);

/// A program with one output: the id in `program` of the first node whose operands lie outside of
/// its domain, -1 where there is none. Outside: beyond the op table's domain, a divisor of 0, a
/// negative base with an exponent that is no whole number. Sides of selects that are not taken do
/// not count. `program` has no composite ops and no node that nothing needs.
Program domain_errors(const Program& program);

/// expand, then fold and simplify until nothing changes (bounded); nothing dead is left. What
/// derivatives are taken of.
Program optimize(const Program& program);

}  // namespace topograd::ir
