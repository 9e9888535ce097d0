// Internal: kernels that copy parts of tensors, in units of one or several elements.
#pragma once

#include "../../backend/compute_kernel.hpp"
#include "../../backend/type.hpp"

#include <cstdint>
#include <initializer_list>

namespace topograd::ops::detail {

/// Bytes of the largest unit that divides all of these numbers of elements: 16, 8 or 4; 2 if f16
/// elements do not fill words.
std::uint32_t unit_bytes(Type type, std::initializer_list<std::uint64_t> elements);

/// target[i / inner * row + i % inner] = source[i], i < count: all counts are of units.
/// Arguments source, target; words count, inner, row.
ComputeKernel place_kernel(std::uint32_t unit);

/// Source that finds the entries selected by indices.
///
/// Item i is number i % inner of index i / inner % taken of part i / inner / taken; its entry is at
/// (part * entries + index) * inner of the source. Words count, inner, taken, entries.
///
/// target[i] = source[entry], 0 for an index out of range. Arguments source, indices, target.
ComputeKernel take_kernel(std::uint32_t unit, bool wide_indices);
/// target[i] = entry, ~0 for an index out of range. Arguments indices, target.
ComputeKernel taken_places_kernel(bool wide_indices);

}  // namespace topograd::ops::detail
