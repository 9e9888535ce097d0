// The interpreter's vector table: each op on a tile of instances, per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../../codegen/precision.hpp"
#include "../../../ir/op.hpp"

namespace topograd::runtime::cpu {

using codegen::Bits;

/// Instances of a tile: few enough that a dozen tiles of double stay in the first-level cache, many
/// enough that fetching an instruction costs little.
inline constexpr std::size_t kTile = 256;
/// Lengths given to tile functions are multiples of this, which every vector width divides.
inline constexpr std::size_t kLanes = 16;

/// Two ops in one pass: the intermediate value stays in a vector register.
enum class Pair : std::uint8_t {
#define TG_PAIR(id, ...) id,
#include "pairs.def"
#undef TG_PAIR
};

/// The ops of a pair.
struct PairInfo {
  ir::Op inner, outer;
  int operand;  ///< position of the inner op's value in the outer op's operands
};
inline constexpr PairInfo kPairs[] = {
#define TG_PAIR(id, inner, outer, operand, ...) {ir::Op::inner, ir::Op::outer, operand},
#include "pairs.def"
#undef TG_PAIR
};
inline constexpr std::size_t kPairCount = sizeof(kPairs) / sizeof(kPairs[0]);

/// Functions on tiles. T is float or double. Lengths n are multiples of kLanes, at most kTile;
/// arrays are aligned to 64 bytes. Values are those of ir::apply, bit for bit for arithmetic,
/// square root, rounding and choices, within 2 ulp for the other functions.
template <class T>
struct TileOps {
  /// out = op(a, b, c); `out` may be one of the operands; unused operands are ignored.
  using Map = void (*)(T* out, const T* a, const T* b, const T* c, std::size_t n);

  Map map[ir::kOpCount];  ///< null for leaves and composite ops
  Map pair[kPairCount];   ///< a and b of the inner op, c of the outer one; same bits as the two ops
  void (*gather)(T* out, const T* from, const std::uint32_t* index, std::size_t n);
  void (*copy)(T* out, const T* in, std::size_t n);
  /// A copy() that bypasses the caches, for results larger than these.
  void (*stream)(T* out, const T* in, std::size_t n);
  const char* name;  ///< of the instruction set
};

/// The table for this machine, chosen once. Portable functions are those of devices (codegen/math),
/// with the same bits for every instruction set.
template <class T>
const TileOps<T>& tile_ops(Bits bits = Bits::native);

/// All tables that run on this machine, the plainest first; null after the last. For tests.
template <class T>
const TileOps<T>* const* all_tile_ops(Bits bits);

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
