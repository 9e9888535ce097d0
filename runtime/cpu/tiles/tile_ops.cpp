// Choice of the table of tile functions for this processor.
#include "tile_ops.hpp"

#include "../../../ir/machine/instruction_sets.hpp"
#include "tile_ops_sets.hpp"

#include <array>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kSets = 3;
template <class T>
using Tables = std::array<const TileOps<T>*, kSets + 1>;  // null after the last

template <class T>
Tables<T> usable();

#if defined(__x86_64__)
template <>
Tables<double> usable() {
  Tables<double> tables = {&tile_ops_baseline_f64()};
  std::size_t n = 1;
  if (platform::has_avx2()) tables[n++] = &tile_ops_avx2_f64();
  if (platform::has_avx512()) tables[n++] = &tile_ops_avx512_f64();
  return tables;
}

template <>
Tables<float> usable() {
  Tables<float> tables = {&tile_ops_baseline_f32()};
  std::size_t n = 1;
  if (platform::has_avx2()) tables[n++] = &tile_ops_avx2_f32();
  if (platform::has_avx512()) tables[n++] = &tile_ops_avx512_f32();
  return tables;
}
#else
template <>
Tables<double> usable() {
  return {&tile_ops_baseline_f64()};
}

template <>
Tables<float> usable() {
  return {&tile_ops_baseline_f32()};
}
#endif

}  // namespace

template <class T>
const TileOps<T>* const* all_tile_ops() {
  static const Tables<T> kTables = usable<T>();
  return kTables.data();
}

template <class T>
const TileOps<T>& tile_ops() {
  const TileOps<T>* const* table = all_tile_ops<T>();
  while (table[1] != nullptr) ++table;
  return **table;
}

template const TileOps<double>* const* all_tile_ops<double>();
template const TileOps<float>* const* all_tile_ops<float>();
template const TileOps<double>& tile_ops<double>();
template const TileOps<float>& tile_ops<float>();

}  // namespace topograd::runtime::cpu
