// The ways in which a device sums terms, for tests that go through all of them.
#pragma once

#include "../../../codegen/kernel.hpp"

namespace topograd::test {

inline constexpr codegen::Accumulation kRungs[] = {
    codegen::Accumulation::gather_recompute, codegen::Accumulation::gather_store,
    codegen::Accumulation::atomic_float, codegen::Accumulation::atomic_cas};

}  // namespace topograd::test
