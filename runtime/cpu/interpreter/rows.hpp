// The interpreter on rows of numbers.
#pragma once

#include "../../rows/rows.hpp"

namespace topograd::runtime::cpu {

/// Makes a runner on the calling thread with this machine's instruction set.
std::unique_ptr<RowRunner> make_row_runner(Precision precision);

}  // namespace topograd::runtime::cpu
