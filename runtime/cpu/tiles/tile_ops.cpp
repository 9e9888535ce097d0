// Choice of the table of tile functions for this processor.
#include "tile_ops.hpp"

#include "../../../ir/machine/instruction_sets.hpp"
#include "cpu_work.hpp"
#include "tile_ops_sets.hpp"

#include <array>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kSets = 3;
template <class T>
using Tables = std::array<const TileOps<T>*, kSets + 1>;  // null after the last

/// Of one instruction set: the table of each precision and kind of bits.
template <class T>
const TileOps<T>& of_set(const TileOps<double>& f64, const TileOps<float>& f32,
                         const TileOps<double>& portable_f64, const TileOps<float>& portable_f32,
                         Bits bits) {
  const bool portable = bits == Bits::portable;
  if constexpr (sizeof(T) == sizeof(double))
    return portable ? portable_f64 : f64;
  else
    return portable ? portable_f32 : f32;
}

#define TG_OF_SET(set)                                                                        \
  &of_set<T>(tile_ops_##set##_f64(), tile_ops_##set##_f32(), portable_tile_ops_##set##_f64(), \
             portable_tile_ops_##set##_f32(), bits)

template <class T>
Tables<T> usable(Bits bits) {
  Tables<T> tables = {TG_OF_SET(baseline)};
#if defined(__x86_64__)
  std::size_t n = 1;
  if (platform::has_avx2()) tables[n++] = TG_OF_SET(avx2);
  if (platform::has_avx512()) tables[n++] = TG_OF_SET(avx512);
#endif
  return tables;
}

#undef TG_OF_SET

}  // namespace

template <class T>
const TileOps<T>* const* all_tile_ops(Bits bits) {
  static const std::array<Tables<T>, 2> kTables = {usable<T>(Bits::native),
                                                   usable<T>(Bits::portable)};
  return kTables[static_cast<std::size_t>(bits)].data();
}

template <class T>
const TileOps<T>& tile_ops(Bits bits) {
  const TileOps<T>* const* table = all_tile_ops<T>(bits);
  while (table[1] != nullptr) ++table;
  return **table;
}

template <class T>
const TileOps<T>* const* all_tile_ops() {
  return all_tile_ops<T>(Bits::native);
}

template <class T>
const TileOps<T>& tile_ops() {
  return tile_ops<T>(Bits::native);
}

#define TG_TABLES_OF(T)                                    \
  template const TileOps<T>* const* all_tile_ops<T>(Bits); \
  template const TileOps<T>& tile_ops<T>(Bits);            \
  template const TileOps<T>* const* all_tile_ops<T>();     \
  template const TileOps<T>& tile_ops<T>();
TG_TABLES_OF(double)
TG_TABLES_OF(float)
#undef TG_TABLES_OF

}  // namespace topograd::runtime::cpu
