// Tile functions with portable bits for AVX2 and FMA.
#define TG_PORTABLE_BITS
#include "tile_ops.hpp"
#include "tile_ops_impl.hpp"

namespace topograd::runtime::cpu {

const TileOps<double>& portable_tile_ops_avx2_f64() {
  static const TileOps<double> kOps = make_tile_ops<double>();
  return kOps;
}

const TileOps<float>& portable_tile_ops_avx2_f32() {
  static const TileOps<float> kOps = make_tile_ops<float>();
  return kOps;
}

}  // namespace topograd::runtime::cpu
