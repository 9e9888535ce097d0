// Choice of the passes over lanes for this processor.
#include "lane_passes.hpp"

#include "../../ir/machine/platform.hpp"

#include <array>

namespace topograd {
namespace {

/// Numbers of the widest register.
constexpr std::size_t kWidest = 8;

using Tables = std::array<const LanePasses*, 4>;  // null after the last

Tables usable() {
  Tables tables = {&lane_passes_baseline()};
#if defined(__x86_64__)
  std::size_t n = 1;
  if (platform::has_avx2()) tables[n++] = &lane_passes_avx2();
  if (platform::has_avx512()) tables[n++] = &lane_passes_avx512();
#endif
  return tables;
}

}  // namespace

std::size_t lane_scratch(std::uint32_t n) {
  const std::size_t triangle = std::size_t{n} * (n + 1) / 2;
  return (n <= kMostByRegisters ? kWidest : 1) * (triangle + 3 * std::size_t{n});
}

const LanePasses* const* all_lane_passes() {
  static const Tables kTables = usable();
  return kTables.data();
}

const LanePasses& lane_passes() {
  const LanePasses* const* table = all_lane_passes();
  while (table[1] != nullptr) ++table;
  return **table;
}

}  // namespace topograd
