// Kernels of a front for the instruction set that the whole library is compiled for.
#include "front_kernels.hpp"
#include "front_kernels_impl.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& front_kernels_baseline() { return kKernels; }

}  // namespace topograd::runtime::cpu
