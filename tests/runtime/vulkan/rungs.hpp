// The accumulation strategies of a device, for tests of all of them.
#pragma once

#include "../../../codegen/kernel.hpp"

namespace topograd::test {

inline constexpr codegen::Accumulation kRungs[] = {
    codegen::Accumulation::gather_recompute, codegen::Accumulation::gather_store,
    codegen::Accumulation::atomic_float, codegen::Accumulation::atomic_cas};

}  // namespace topograd::test
