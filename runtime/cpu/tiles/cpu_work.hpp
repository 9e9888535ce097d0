// How the CPU computes: its threads, and whether its bits are those of every machine.
#pragma once

#include "../../../codegen/bits.hpp"

namespace topograd::runtime::cpu {

using codegen::Bits;

/// A number of threads converts to it.
struct CpuWork {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CpuWork(int of_threads = 0, Bits of_bits = Bits::native) : threads(of_threads), bits(of_bits) {}
  int threads;  ///< 0 = all
  Bits bits;    ///< of factors
};

template <class T>
struct TileOps;

/// As tile_ops() and all_tile_ops() without an argument, which have native bits. Portable functions
/// are those of devices (codegen/math), with the same bits for every instruction set.
template <class T>
const TileOps<T>& tile_ops(Bits bits);
template <class T>
const TileOps<T>* const* all_tile_ops(Bits bits);

}  // namespace topograd::runtime::cpu
