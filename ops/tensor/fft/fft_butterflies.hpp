// Internal: complex numbers and butterflies in kernels of Fourier transforms.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace topograd::ops::detail {

/// Source of times(a, b) for complex numbers, turned(a), and fft2(a, b) etc.: forward transforms in
/// place, of powers of two up to 8 and of the requested other sizes: 3, 5, 7, 16.
std::string butterflies(std::span<const std::uint32_t> sizes, bool wide);

}  // namespace topograd::ops::detail
