// Tile functions for AVX2 and FMA.
#include "tile_ops_impl.hpp"
#include "tile_ops_sets.hpp"

namespace topograd::runtime::cpu {

const TileOps<double>& tile_ops_avx2_f64() {
  static const TileOps<double> ops = make_tile_ops<double>();
  return ops;
}

const TileOps<float>& tile_ops_avx2_f32() {
  static const TileOps<float> ops = make_tile_ops<float>();
  return ops;
}

}  // namespace topograd::runtime::cpu
