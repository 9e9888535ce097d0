// One table of tile functions for each instruction set that the library was compiled for.
#pragma once

#include "tile_ops.hpp"

namespace topograd::runtime::cpu {

const TileOps<double>& tile_ops_baseline_f64();
const TileOps<float>& tile_ops_baseline_f32();
#if defined(__x86_64__)
const TileOps<double>& tile_ops_avx2_f64();
const TileOps<float>& tile_ops_avx2_f32();
const TileOps<double>& tile_ops_avx512_f64();
const TileOps<float>& tile_ops_avx512_f32();
#endif

}  // namespace topograd::runtime::cpu
