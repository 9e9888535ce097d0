// Checks of arrays that run on any device.
#pragma once

#include "../../../ops/backend/device.hpp"

namespace topograd::ops::test {

void check_maps(const Device& device);
void check_map_forms(const Device& device);
void check_reductions(const Device& device);
void check_reduction_forms(const Device& device);
void check_scans(const Device& device);
void check_indices(const Device& device);
void check_sorts(const Device& device);
void check_folds(const Device& device);
void check_segments(const Device& device);
void check_histograms(const Device& device);
void check_random(const Device& device);

}  // namespace topograd::ops::test
