// Scans in one pass by decoupled look-back: the choice of tiles, and the source of the kernel.
#pragma once

#include "../../run/storage.hpp"
#include "reduce_device.hpp"

#include <cstddef>
#include <cstdint>

namespace topograd::ops {

struct AheadKernel {
  /// Vectors of 16 bytes per invocation.
  static constexpr std::uint32_t kRows = 4;

  Type type;
  std::uint32_t local, subgroup;

  std::uint32_t subgroups() const { return local / subgroup; }
  std::uint32_t width() const { return 16 / static_cast<std::uint32_t>(size_of(type)); }
  std::uint32_t tile() const { return local * kRows; }  ///< in vectors
};

/// Number of 32-bit words of a monoid's state.
std::uint32_t state_words(const Monoid& monoid);

/// x0 and y are vectors of 16 bytes; `states` holds the aggregates and prefixes that workgroups
/// exchange. Words: vectors, tiles, tiles between reducing and scanning, 1 for an exclusive scan;
/// those of the monoid.
ComputeKernel ahead_source(const FoldForm& form, const AheadKernel& kernel);

/// Scans the elements after the last vector, in one invocation. Words: elements, the index of the
/// sum of all elements before, 1 for an exclusive scan; those of the monoid.
ComputeKernel rest_source(const FoldForm& form, const AheadKernel& kernel);

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
