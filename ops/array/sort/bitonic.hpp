// Internal: sorts few elements on a device, in the shared memory of one workgroup.
#pragma once

#include "../../run/slice.hpp"

namespace topograd::ops {

/// True if a workgroup can hold the elements: 2,048, or 1,024 of f64.
bool fits_bitonic(const Slice& x);

/// Writes the sorted elements or, to u32, their indices in that order: stable, NaN last, as
/// sort_into(). Queues one launch. Source: Batcher, Sorting networks and their applications (1968).
void bitonic_sort(OpBackend& backend, const Slice& x, const Slice& output, bool places);

}  // namespace topograd::ops
