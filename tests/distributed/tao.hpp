// PETSc's own optimiser on a case's residuals: the oracle of the distributed solves.
#pragma once

#include "cases.hpp"

#include <string>

namespace topograd::test {

/// Minimises by TAOBRGN (bounded, regularised Gauss–Newton) with residuals, J·p and Jᵀu of an
/// Evaluator. Returns ½ Σ r² at its answer, as a number.
std::string tao_text(Case& of);

}  // namespace topograd::test
