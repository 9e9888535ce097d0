// Internal: radix sort on devices.
#pragma once

#include <topograd/ops/slice.hpp>

#include <optional>
#include <string>

namespace topograd::ops {

/// Why the device cannot sort so many elements; empty if it can.
std::string radix_refusal(const Backend& backend, std::uint64_t count);

struct Sorted {
  Slice keys;
  std::optional<Slice> values;
};
/// u32 keys in ascending order and the u32 values that belong to them, stable. The slices that are
/// given are overwritten.
Sorted radix_sort(Backend& backend, const Slice& keys, const std::optional<Slice>& values);

/// Words whose order as integers is that of the elements: one for each, or (f64) the high or low
/// word.
void encode_keys(Backend& backend, const Slice& x, const Slice& keys, bool high);
/// The elements of 32 bits that such words stand for.
void decode_keys(Backend& backend, const Slice& keys, const Slice& output);
/// 0, 1, 2, ...
void write_places(Backend& backend, const Slice& output);

}  // namespace topograd::ops
