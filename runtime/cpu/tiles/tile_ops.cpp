// Choice of the table of tile functions for this processor.
#include "tile_ops.hpp"

#include "../../../ir/machine/platform.hpp"

#include <array>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kSets = 3;
template <class T>
using Tables = std::array<const TileOps<T>*, kSets + 1>;  // null after the last

/// The functions that make the tables of one instruction set.
template <class T>
struct TablesOfSet {
  const TileOps<T>& (*native)();
  const TileOps<T>& (*portable)();

  const TileOps<T>* table(Bits bits) const {
    return bits == Bits::portable ? &portable() : &native();
  }
};

#define TG_OF_SET(set)                                                            \
  [] {                                                                            \
    if constexpr (sizeof(T) == sizeof(double))                                    \
      return TablesOfSet<T>{tile_ops_##set##_f64, portable_tile_ops_##set##_f64}; \
    else                                                                          \
      return TablesOfSet<T>{tile_ops_##set##_f32, portable_tile_ops_##set##_f32}; \
  }()

template <class T>
Tables<T> usable(Bits bits) {
  Tables<T> tables = {TG_OF_SET(baseline).table(bits)};
#if defined(__x86_64__)
  std::size_t n = 1;
  if (platform::has_avx2()) tables[n++] = TG_OF_SET(avx2).table(bits);
  if (platform::has_avx512()) tables[n++] = TG_OF_SET(avx512).table(bits);
#endif
  return tables;
}

#undef TG_OF_SET

}  // namespace

template <class T>
const TileOps<T>* const* all_tile_ops(Bits bits) {
  if (bits == Bits::portable) {
    static const Tables<T> kPortable = usable<T>(Bits::portable);
    return kPortable.data();
  }
  static const Tables<T> kNative = usable<T>(Bits::native);
  return kNative.data();
}

template <class T>
const TileOps<T>& tile_ops(Bits bits) {
  const TileOps<T>* const* table = all_tile_ops<T>(bits);
  while (table[1] != nullptr) ++table;
  return **table;
}

#define TG_TABLES_OF(T)                                    \
  template const TileOps<T>* const* all_tile_ops<T>(Bits); \
  template const TileOps<T>& tile_ops<T>(Bits);
TG_TABLES_OF(double)
TG_TABLES_OF(float)
#undef TG_TABLES_OF

}  // namespace topograd::runtime::cpu
