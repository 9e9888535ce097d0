// Kernels of a front for AVX2 and FMA.
#include "front_kernels.hpp"
#include "front_kernels_impl.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& front_kernels_avx2() { return kKernels; }

}  // namespace topograd::runtime::cpu
