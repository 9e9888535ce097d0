// Kernels of a front for AVX-512.
#include "front_kernels.hpp"
#include "front_kernels_impl.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& front_kernels_avx512() { return kKernels; }

}  // namespace topograd::runtime::cpu
