// Passes over lanes for AVX2.
#include "lane_passes.hpp"
#include "lane_passes_impl.hpp"

namespace topograd {

const LanePasses& lane_passes_avx2() { return kPasses; }

}  // namespace topograd
