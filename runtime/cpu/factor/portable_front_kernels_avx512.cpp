// Kernels of a front with portable bits for AVX-512 (F, VL, DQ).
#define TG_PORTABLE_BITS
#include "front_kernels.hpp"
#include "front_kernels_impl.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& portable_front_kernels_avx512() { return kKernels; }

}  // namespace topograd::runtime::cpu
