// Internal: radix sort on devices.
#pragma once

#include "../../run/slice.hpp"

#include <optional>
#include <string>

namespace topograd::ops {

/// Why the device cannot sort so many elements; empty if it can.
std::string radix_refusal(const Backend& backend, std::uint64_t count);

/// What is sorted, and what is wanted of it.
struct RadixSort {
  Slice keys;                      ///< f32, i32 or u32; stay as they are
  std::optional<Slice> values;     ///< u32 that belong to them; nothing: their places
  std::optional<Slice> to_keys;    ///< in ascending order, of the keys' type
  std::optional<Slice> to_values;  ///< u32
};
/// Queues the sort: stable, NaN behind all. Outputs overlap no input.
void radix_sort(Backend& backend, const RadixSort& sort);

/// Words whose order as integers is that of f64 elements with equal other words: the high or the
/// low ones.
void encode_words(Backend& backend, const Slice& x, const Slice& keys, bool high);

}  // namespace topograd::ops
