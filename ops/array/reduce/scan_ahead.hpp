// Internal: scans of large arrays in one pass, on devices whose workgroups run on whatever others
// do.
#pragma once

#include "../../run/slice.hpp"
#include "monoid.hpp"

namespace topograd::ops {

/// Whether such a scan is worth it there, and can be: of what begins at vectors of 16 bytes and is
/// bound at once.
bool scans_ahead(const Backend& backend, const FoldForm& form, const Slice& x, const Slice& output);

/// Queues it. Workgroups take numbers in the order in which they begin; number t reduces tile t of
/// x, which it reads from memory, and scans tile t - `kAhead`, which then is in the device's cache
/// and whose predecessors have long been reduced. What precedes a tile is always summed up in the
/// same order: subgroups of tiles, subgroups of those, and all that lies before.
///
///   x  at least one vector of 16 bytes
void scan_ahead(Backend& backend, const FoldForm& form, const Slice& x, const Slice& output,
                bool exclusive);

}  // namespace topograd::ops
