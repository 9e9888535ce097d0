// One table of tile functions for each instruction set that the library was compiled for.
#pragma once

#include "tile_ops.hpp"

namespace topograd::runtime::cpu {

#define TG_TILE_OPS(set)                                  \
  const TileOps<double>& tile_ops_##set##_f64();          \
  const TileOps<float>& tile_ops_##set##_f32();           \
  const TileOps<double>& portable_tile_ops_##set##_f64(); \
  const TileOps<float>& portable_tile_ops_##set##_f32();
TG_TILE_OPS(baseline)
#if defined(__x86_64__)
TG_TILE_OPS(avx2)
TG_TILE_OPS(avx512)
#endif
#undef TG_TILE_OPS

}  // namespace topograd::runtime::cpu
