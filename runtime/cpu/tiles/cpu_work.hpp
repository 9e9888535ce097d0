// How the CPU computes: its threads, and whether its bits are those of every machine.
#pragma once

#include "../../../codegen/precision.hpp"

namespace topograd::runtime::cpu {

using codegen::Bits;

/// A number of threads converts to it.
struct CpuWork {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CpuWork(int of_threads = 0, Bits of_bits = Bits::native) : threads(of_threads), bits(of_bits) {}
  int threads;  ///< 0 = all
  Bits bits;    ///< of factors
};

}  // namespace topograd::runtime::cpu
