// Internal: complex numbers and butterflies in kernels of Fourier transforms.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace topograd::ops::detail {

/// Source for f32 or f64, from its second byte on: {V} and {S} become the types of complex and of
/// real numbers, {F} the word `factor`.
std::string fft_filled(std::string_view pattern, bool wide);

/// Source of times(a, b) for complex numbers.
std::string complex_functions(bool wide);

/// The same, with turned(a), and fft2(a, b) etc.: forward transforms in place, of powers of two up
/// to 8 and of the requested other sizes: 3, 5, 7, 16.
std::string butterflies(std::span<const std::uint32_t> sizes, bool wide);

}  // namespace topograd::ops::detail
