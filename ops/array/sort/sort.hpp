// Sorting: by radix on devices, by TBB on the CPU; the same order on both.
#pragma once

#include "../reduce/scan.hpp"

#include <cstdint>
#include <utility>

namespace topograd::ops {

/// Sorts the elements in ascending order: −∞ … −0, 0 … ∞, then all NaNs (as quiet ones).
///
/// Devices sort up to 2,048 elements (f64: 1,024) in one workgroup's shared memory, on any device.
/// They sort more in four passes of eight bits (f64: eight); each pass counts digits by shares of
/// workgroups, scans the counts and moves the elements, after sorting tiles in shared memory. This
/// needs subgroups, and arrays that the device binds at once. The output may be x itself. Throws
/// Error{Shape}, Error{InvalidArgument} for results of another size or type.
ExecutionStats sort_into(const Slice& x, const Slice& output, const OpOptions& options);
/// The indices of the elements in that order, as u32. Stable, also for NaNs.
ExecutionStats argsort_into(const Slice& x, const Slice& output, const OpOptions& options);

template <class T>
Array<T> sort(const Array<T>& x, const OpOptions& options = {}) {
  Array<T> out(x.size());
  sort_into(x.untyped(), out.untyped(), options);
  return out;
}
template <class T>
Array<std::uint32_t> argsort(const Array<T>& x, const OpOptions& options = {}) {
  Array<std::uint32_t> out(x.size());
  argsort_into(x.untyped(), out.untyped(), options);
  return out;
}
/// Sorts keys together with their values; stable. Throws Error{Shape} if sizes differ.
template <class K, class V>
std::pair<Array<K>, Array<V>> sort_by_key(const Array<K>& keys, const Array<V>& values,
                                          const OpOptions& options = {}) {
  expect_size("sort_by_key", keys.size(), values.size());
  const Array<std::uint32_t> order = argsort(keys, options);
  return {gather(keys, order, IndexCheck::none, options),
          gather(values, order, IndexCheck::none, options)};
}

}  // namespace topograd::ops
