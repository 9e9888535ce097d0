// One table of a front's kernels for each instruction set that the library was compiled for.
#pragma once

#include "front_kernels.hpp"

namespace topograd::runtime::cpu {

const FrontKernels& front_kernels_baseline();
const FrontKernels& portable_front_kernels_baseline();
#if defined(__x86_64__)
const FrontKernels& front_kernels_avx2();
const FrontKernels& front_kernels_avx512();
const FrontKernels& portable_front_kernels_avx2();
const FrontKernels& portable_front_kernels_avx512();
#endif

}  // namespace topograd::runtime::cpu
