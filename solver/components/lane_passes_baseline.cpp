// Passes over lanes for every processor.
#include "lane_passes.hpp"
#include "lane_passes_impl.hpp"

namespace topograd {

const LanePasses& lane_passes_baseline() { return kPasses; }

}  // namespace topograd
