// Passes over lanes for AVX-512.
#include "lane_passes.hpp"
#include "lane_passes_impl.hpp"

namespace topograd {

const LanePasses& lane_passes_avx512() { return kPasses; }

}  // namespace topograd
