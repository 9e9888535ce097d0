// Internal: kernels that copy parts of tensors, as units of several elements or of one.
#pragma once

#include "../../backend/kernel_text.hpp"
#include "../../backend/type.hpp"

#include <cstdint>
#include <initializer_list>

namespace topograd::ops::detail {

/// Bytes of the largest unit that divides all of so many elements: 16, 8 or 4; 2 where elements of
/// f16 do not fill words.
std::uint32_t unit_bytes(Type type, std::initializer_list<std::uint64_t> elements);

/// target[i / inner * row + i % inner] = source[i], i < count: all counts are of units.
/// Arguments source, target; words count, inner, row.
KernelText place_kernel(std::uint32_t unit);

/// How a kernel walks to the entries that indices name.
///
/// Item i is number i % inner of index i / inner % taken of part i / inner / taken, and is at
/// (part * entries + index) * inner of what is taken from. Words count, inner, taken, entries.
///
/// target[i] = source[there], 0 for an index out of range. Arguments source, indices, target.
KernelText take_kernel(std::uint32_t unit, bool wide_indices);
/// target[i] = there, ~0 for an index out of range. Arguments indices, target.
KernelText taken_places_kernel(bool wide_indices);

}  // namespace topograd::ops::detail
