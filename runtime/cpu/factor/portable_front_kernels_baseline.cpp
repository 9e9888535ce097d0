// Kernels of a front with portable bits for the instruction set that the whole library is compiled
// for.
#define TG_PORTABLE_BITS
#include "front_kernels.hpp"
#include "front_kernels_impl.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& portable_front_kernels_baseline() { return kKernels; }

}  // namespace topograd::runtime::cpu
