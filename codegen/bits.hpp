// Whether the bits of an answer depend on the machine that computes it.
#pragma once

#include "../ir/enum_table.hpp"

namespace topograd::codegen {

/// `native`: each machine computes as fast as it can, with the same bits in every run. `portable`:
/// elementary functions, contractions and the order of sums are the same on all machines.
enum class Bits { native, portable };
TG_ENUM_NAMES(Bits)

}  // namespace topograd::codegen
