// Internal: radix sort on devices.
#pragma once

#include "../../run/slice.hpp"

#include <optional>
#include <string>

namespace topograd::ops {

/// The reason why the device cannot sort that many elements; empty if it can.
std::string radix_refusal(const OpBackend& backend, std::uint64_t count);

/// Inputs and outputs of a sort.
struct RadixSort {
  Slice keys;                      ///< f32, i32 or u32; not changed
  std::optional<Slice> values;     ///< u32 values of the keys; empty: their indices
  std::optional<Slice> to_keys;    ///< in ascending order, of the keys' type
  std::optional<Slice> to_values;  ///< u32
};
/// Queues a stable sort with NaN last. Outputs must not overlap inputs.
void radix_sort(OpBackend& backend, const RadixSort& sort);

/// The high or low words of f64 elements, in the integer order of elements with equal other words.
void encode_words(OpBackend& backend, const Slice& x, const Slice& keys, bool high);

}  // namespace topograd::ops
