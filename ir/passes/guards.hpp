// Guards as a separate program.
#pragma once

#include "../program.hpp"

namespace topograd::ir {

/// Program with one output: 1 if a guard of `f` fails, else 0. As in C++ every number but zero is
/// true, NaN too. Without guards the output is the literal 0.
Program guard_failure(const Program& f);

}  // namespace topograd::ir
