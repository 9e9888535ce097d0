// Choice of the kernels of a front for this processor.
#include "front_kernels.hpp"

#include "../../../ir/machine/platform.hpp"

#include <array>
#include <cstddef>

namespace topograd::runtime::cpu {
namespace {

using Tables = std::array<const FrontKernels*, 4>;  // null after the last

Tables usable(bool portable) {
  Tables tables = {portable ? &portable_front_kernels_baseline() : &front_kernels_baseline()};
#if defined(__x86_64__)
  std::size_t n = 1;
  if (platform::has_avx2())
    tables[n++] = portable ? &portable_front_kernels_avx2() : &front_kernels_avx2();
  if (platform::has_avx512())
    tables[n++] = portable ? &portable_front_kernels_avx512() : &front_kernels_avx512();
#endif
  return tables;
}

}  // namespace

const FrontKernels* const* all_front_kernels(Bits bits) {
  static const Tables kTables[] = {usable(false), usable(true)};
  return kTables[bits == Bits::portable ? 1 : 0].data();
}

const FrontKernels& front_kernels(Bits bits) {
  const FrontKernels* const* table = all_front_kernels(bits);
  while (table[1] != nullptr) ++table;
  return **table;
}

}  // namespace topograd::runtime::cpu
