// Internal: sorts on devices: few elements in one workgroup's shared memory, many by radix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "../../backend/compute_kernel.hpp"
#include "../../backend/type.hpp"
#include "../../run/storage.hpp"

namespace topograd::ops {

/// True if a workgroup can hold the elements: 2,048, or 1,024 of f64.
bool fits_bitonic(const Slice& x);

/// Writes the sorted elements or, to u32, their indices in that order: stable, NaN last, as
/// sort_into(). Queues one launch. Source: Batcher, Sorting networks and their applications (1968).
void bitonic_sort(OpBackend& backend, const Slice& x, const Slice& output, bool indices);

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

/// The values that a pass moves together with the keys.
enum class RadixValues : std::uint8_t {
  none,
  indices,  ///< indices 0, 1, 2, ...: written, not read
  carried
};

/// Kernels of one pass over eight bits of keys: elements of 32 bits, read as words whose integer
/// order is the elements' order (NaN last).
struct RadixKernel {
  std::uint32_t local = 256;    ///< invocations per workgroup, a divisor or a multiple of 256
  std::uint32_t per = 16;       ///< elements per invocation in a tile
  std::uint32_t subgroup = 32;  ///< invocations per subgroup, a divisor of `local`
  bool shuffle = false;         ///< true if subgroupShuffle is available
  Type from = Type::u32;        ///< f32, i32 or u32: type of the keys that are read
  Type to = Type::u32;          ///< type of the keys that are written
  bool keys_out = true;
  RadixValues values = RadixValues::none;

  std::uint32_t subgroups() const { return local / subgroup; }
  std::uint32_t tile() const { return local * per; }
  std::uint32_t shared_bytes() const;
};

/// table[digit * groups + group] = number of keys of the group's share with that digit. Arguments:
/// key, table; words: count, per_group, groups, shift.
ComputeKernel radix_count_kernel(const RadixKernel& kernel);

/// Moves each key to its position: `table` (the exclusive scan of the counts) has the first
/// position of each digit in the share. Stable. Arguments: key, table, [value], [out_key],
/// [out_value]; words as above.
ComputeKernel radix_move_kernel(const RadixKernel& kernel);

}  // namespace topograd::ops
