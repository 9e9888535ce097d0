// All passes. A pass takes a program and returns an equivalent one.
#pragma once

#include <cstddef>

#include "../program.hpp"

namespace topograd::ir {

/// Expands composite ops into primitive ones; the values equal the evaluator's bit for bit.
Program expand(const Program& program);

/// Evaluates nodes whose operands are all literals if the result is right for float and double
/// kernels: rounded to float it equals the result of float arithmetic, and results of library
/// functions are exact (sin(0), pow(2, 3)). Other nodes are kept, so that both kernels come from
/// one program, the same on every machine.
Program fold(const Program& program);

/// Applies algebraic rules. Every rule keeps the bits of each output for all inputs, in float and
/// in double, NaN, infinities and signed zeros included (a NaN may change its payload and sign).
Program simplify(const Program& program);

/// Removes nodes that no output or guard needs.
Program remove_dead(const Program& program);

/// Removes products that a comparison has decided: in select(d == 0, zmul(d, x), y) the first
/// choice is 0. Keeps the bits of each output, but not of its derivatives, which need these
/// products: for programs of which none are taken.
Program finish(const Program& program);

/// Orders nodes so that few values are live at a time (Sethi-Ullman numbers on the DAG). Outputs
/// keep their order and nodes their operands. The number of live values does not grow.
Program schedule(const Program& program);

/// Largest number of values live at once when nodes are computed in order: leaves from their own
/// position, outputs to the end, literals never.
std::size_t max_live(const Program& program);

/// Keeps operands inside the domains of their ops: with the ends [l, u] of the first operand's
/// domain in the op table, op(x) becomes op(min(max(x, l + epsilon), u - epsilon)), and a / b
/// divides by b or, if |b| < epsilon, by epsilon with b's sign. Derivatives are those of the new
/// expression.
Program guard_domains(const Program& program, double epsilon);

/// Program with one output: the id in `program` of the first node whose operands are outside its
/// domain, or -1. Outside means: beyond the op table's domain, a divisor of 0, a negative base with
/// an exponent that is not a whole number. Sides of selects that are not taken do not count.
/// `program` has no composite ops and no dead nodes.
Program domain_errors(const Program& program);

/// Expands, then folds and simplifies until nothing changes (bounded), and removes dead nodes.
/// Derivatives are taken of the result.
Program optimize(const Program& program);

/// Program with one output: 1 if a guard of `f` fails, else 0. As in C++ every number but zero is
/// true, NaN too. Without guards the output is the literal 0.
Program guard_failure(const Program& f);

}  // namespace topograd::ir
