// Internal: complex numbers and butterflies in kernels of Fourier transforms.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace topograd::ops::detail {

/// Text for f32 or f64, from its second byte on: {V} and {S} are the types of complex and of real
/// numbers, {F} the word `factor`.
std::string fft_filled(std::string_view pattern, bool wide);

/// times(a, b) of complex numbers.
std::string complex_functions(bool wide);

/// The same, turned(a), and fft2(a, b) and so on: forward transforms in place, of powers of two up
/// to 8 and of the other sizes that are asked for: 3, 5, 7, 16.
std::string butterflies(std::span<const std::uint32_t> sizes, bool wide);

}  // namespace topograd::ops::detail
