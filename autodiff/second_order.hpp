// Second derivatives of a scalar program: Hessian times a vector, and dense blocks of the Hessian.
#pragma once

#include "derivatives.hpp"

namespace topograd::autodiff {

// E maps n parameters to one number: an energy, or cost(f) of a residual f. Its gradient is derived
// symbolically, simplified, and differentiated like any other program, so second derivatives follow
// the rules of first ones (rules.hpp), the zero rule included. Rounding has second derivative 0.
//
// At kinks of abs, min and max the second derivative is the mean of those of both sides; an even
// function of |x| has that of its smooth form. The same holds for lengths (kinks.hpp): squares,
// cosines and other even functions of a length L have the exact Hessian at L = 0. For others it has
// no limit there; the result then has the second derivative along rays from L = 0, which is 0 for a
// length itself, and search_for_kinks() finds such points.
//
// Throw Error{Shape} if E has not exactly one output, Error{InvalidArgument} for a slot that is not
// one of E's parameters.

/// ∇E for the given slots. Outputs: slots.size().
ir::Program scalar_gradient(const ir::Program& E, Slots slots);

/// ∇E for the given slots, then E. Outputs: slots.size() + 1.
ir::Program scalar_gradient_and_value(const ir::Program& E, Slots slots);

/// The rows `slots` of ∇²E·tangent; reads one Tangent leaf per parameter slot. Outputs:
/// slots.size().
/// Cost: at most a small multiple of the gradient's, independent of n.
ir::Program hvp(const ir::Program& E, Slots slots);

/// Upper triangle of ∇²E over `slots`, packed by rows: (s0,s0), (s0,s1), ..., (s1,s1), ... Cost: up
/// to slots.size() times that of hvp, less the nodes that columns share.
ir::Program hessian(const ir::Program& E, Slots slots);

}  // namespace topograd::autodiff
