// Internal: scans of large arrays in one pass, if all running workgroups make progress.
#pragma once

#include "../../run/slice.hpp"
#include "monoid.hpp"

namespace topograd::ops {

/// True if such a scan is possible and worthwhile: arrays must begin at vectors of 16 bytes and be
/// bound at once.
bool scans_ahead(const OpBackend& backend, const FoldForm& form, const Slice& x,
                 const Slice& output);

/// Queues the scan. Workgroups take numbers in the order in which they begin. Workgroup t reduces
/// tile t of x, which it reads from memory, and scans tile t - `kAhead`, which is then in the
/// device's cache and whose predecessors are already reduced. The sum before a tile is always
/// computed in the same order: single tiles, blocks of tiles, and everything before (a block has as
/// many tiles as a subgroup has lanes).
///
///   x  at least one vector of 16 bytes
void scan_ahead(OpBackend& backend, const FoldForm& form, const Slice& x, const Slice& output,
                bool exclusive);

}  // namespace topograd::ops
