// Internal: reductions on devices.
#pragma once

#include "monoid.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Reduces the inputs, of equal size, to one element: workgroups reduce equal shares, and one of
/// them what they leave.
///
///   finish  text of the result's element, of the number {0}
void reduce_on_device(Backend& backend, const Monoid& monoid, const ReductionItem& item,
                      std::span<const Slice> inputs, const Slice& output,
                      const std::string& finish);

/// Elements of workgroups' shares of a slice.
struct Shares {
  std::uint32_t local = 256;    ///< invocations of a workgroup
  std::uint64_t per_group = 0;  ///< elements, but for the last share of a chunk
  std::uint64_t chunk = 0;      ///< elements that are bound at once
  std::uint64_t groups = 0;     ///< of all chunks
};
/// Shares of `count` elements, in multiples of `tile` local sizes, that no invocation needs more
/// than `steps` turns of a loop for each of its elements.
Shares share_out(const Backend& backend, std::uint64_t count, std::size_t widest,
                 std::uint32_t tile, std::uint32_t steps);
/// Reduces each share to a state; one slice for each member.
std::vector<Slice> reduce_shares(Backend& backend, const Monoid& monoid, const ReductionItem& item,
                                 std::span<const Slice> inputs, const Shares& shares);

}  // namespace topograd::ops
