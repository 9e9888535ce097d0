// Kernels of a front for AVX-512.
#include "front_kernels_impl.hpp"
#include "front_kernels_sets.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& front_kernels_avx512() { return kKernels; }

}  // namespace topograd::runtime::cpu
