// Guards as a program of their own.
#pragma once

#include "../program.hpp"

namespace topograd::ir {

/// One output: 1 where a guard of `f` fails, else 0. A condition is what C++ takes it for: every
/// number but zero is true, NaN too. Without guards the output is the literal 0.
Program guard_failure(const Program& f);

}  // namespace topograd::ir
