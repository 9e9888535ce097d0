// Sorting: by radix on devices, by TBB on the CPU; the same order on both.
#pragma once

#include "../reduce/scan.hpp"

#include <cstdint>
#include <utility>

namespace topograd::ops {

/// The elements in ascending order: −∞ … −0, 0 … ∞, then every NaN (as a quiet one).
///
/// On a device: up to 2,048 elements (f64: 1,024) in one workgroup's shared memory, whatever the
/// device has; more in four passes of eight bits (f64: eight), each of which counts digits by
/// shares of workgroups, scans the counts and moves the elements, sorted in shared memory first.
/// Needs subgroups, and arrays that the device binds at once. The results may take x's own place.
/// Throws Error{Shape},
/// Error{InvalidArgument} for results of another size or type.
ExecutionStats sort_into(const Slice& x, const Slice& output, const OpOptions& options);
/// The places of the elements in that order; equal elements (and NaNs) stay in theirs. u32.
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
/// Keys in order, and the values that belong to them; of equal keys in the order that they had.
/// Throws Error{Shape} if sizes differ.
template <class K, class V>
std::pair<Array<K>, Array<V>> sort_by_key(const Array<K>& keys, const Array<V>& values,
                                          const OpOptions& options = {}) {
  expect_size("sort_by_key", keys.size(), values.size());
  const Array<std::uint32_t> order = argsort(keys, options);
  return {gather(keys, order, IndexCheck::none, options),
          gather(values, order, IndexCheck::none, options)};
}

}  // namespace topograd::ops
