// Internal: reductions on devices.
#pragma once

#include "monoid.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Reduces inputs of equal size to one element: workgroups reduce equal shares, and a final
/// workgroup reduces their results.
///
///   finish  source of the resulting element, for the number {0}
void reduce_on_device(OpBackend& backend, const Monoid& monoid, const ReductionItem& item,
                      std::span<const Slice> inputs, const Slice& output,
                      const std::string& finish);

/// The division of a slice into shares of workgroups.
struct Shares {
  std::uint32_t local = 256;    ///< invocations per workgroup
  std::uint64_t per_group = 0;  ///< elements, except for the last share of a chunk
  std::uint64_t chunk = 0;      ///< elements bound at once
  std::uint64_t groups = 0;     ///< workgroups of all chunks
};
/// Divides `count` elements into shares, multiples of `tile` local sizes, so that no invocation
/// needs more than `steps` loop iterations for its elements.
Shares share_out(const OpBackend& backend, std::uint64_t count, std::size_t widest,
                 std::uint32_t tile, std::uint32_t steps);
/// Reduces each share to a state; returns one slice per member.
std::vector<Slice> reduce_shares(OpBackend& backend, const Monoid& monoid,
                                 const ReductionItem& item, std::span<const Slice> inputs,
                                 const Shares& shares);

}  // namespace topograd::ops
