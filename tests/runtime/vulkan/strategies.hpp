// The accumulation strategies of a device, for tests of all of them.
#pragma once

#include "../../../codegen/kernel.hpp"

namespace topograd::test {

inline constexpr codegen::Accumulation kStrategies[] = {
#define TG_ACCUMULATION(row, ...) codegen::Accumulation::row,
#include "../../../codegen/accumulations.def"
};

}  // namespace topograd::test
