// The interpreter on rows of numbers.
#pragma once

#include "../../rows/rows.hpp"
#include "../tiles/cpu_work.hpp"

namespace topograd::runtime::cpu {

/// Makes a runner on the calling thread with this machine's instruction set.
std::unique_ptr<RowRunner> make_row_runner(Precision precision, Bits bits = Bits::native);

}  // namespace topograd::runtime::cpu
