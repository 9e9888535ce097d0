// Internal: kernels of a radix sort's passes.
#pragma once

#include "../../backend/kernel_text.hpp"
#include "../../backend/type.hpp"

#include <cstdint>

namespace topograd::ops {

/// What a pass does with the values that travel with the keys.
enum class RadixValues : std::uint8_t {
  none,
  places,  ///< of elements 0, 1, 2, ...: written, not read
  carried
};

/// Kernels of one pass over eight bits of keys: elements of 32 bits, read as words whose order as
/// integers is that of the elements (NaN behind all).
struct RadixKernel {
  std::uint32_t local = 256;    ///< invocations of a workgroup, a divisor or a multiple of 256
  std::uint32_t per = 16;       ///< elements of an invocation in a tile
  std::uint32_t subgroup = 32;  ///< invocations of a subgroup, a divisor of `local`
  bool shuffle = false;         ///< subgroupShuffle is there
  Type from = Type::u32;        ///< f32, i32 or u32: what keys are read as
  Type to = Type::u32;          ///< what they are written as
  bool keys_out = true;
  RadixValues values = RadixValues::none;

  std::uint32_t subgroups() const { return local / subgroup; }
  std::uint32_t tile() const { return local * per; }
  std::uint32_t shared_bytes() const;
};

/// table[digit * groups + group] = keys of that digit in the group's share. Arguments: key, table;
/// words: count, per_group, groups, shift.
KernelText radix_count_kernel(const RadixKernel& kernel);

/// Moves each key to the place that `table` (the exclusive scan of the counts) has for the first of
/// its digit in the share, and counts on. Arguments: key, table, [value], [out_key], [out_value];
/// words as above. Of equal digits the order stays.
KernelText radix_move_kernel(const RadixKernel& kernel);

/// y(i) = the high or low word of the f64 element whose words are x(2i) and x(2i + 1). Words:
/// count.
KernelText radix_encode_kernel(bool high, std::uint32_t local);

}  // namespace topograd::ops
