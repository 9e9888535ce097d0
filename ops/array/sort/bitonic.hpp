// Internal: sorting of few elements on a device, by one workgroup in shared memory.
#pragma once

#include "../../run/slice.hpp"

namespace topograd::ops {

/// A workgroup can hold them: 2,048 elements, 1,024 of f64.
bool fits_bitonic(const Slice& x);

/// The elements in order or, into u32, their places in that order: stable, NaN last, as sort_into()
/// has it. Queues one launch. Source: Batcher, Sorting networks and their applications (1968).
void bitonic_sort(Backend& backend, const Slice& x, const Slice& output, bool places);

}  // namespace topograd::ops
