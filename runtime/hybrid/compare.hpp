// Compares the results of two sides, element by element, and writes elements as text.
#pragma once

#include "../../ir/enum_table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace topograd::runtime::hybrid {

/// The type of an array's elements, for comparisons and texts. `bits`: words of 32 bits that are
/// equal or not.
enum class Element : std::uint8_t { bits, f16, f32, f64, i32, u32 };
TG_ENUM_NAMES(Element)

/// Bytes per element.
constexpr std::size_t size_of(Element element) {
  if (element == Element::f64) return 8;
  return element == Element::f16 ? 2 : 4;
}

/// Largest relative difference of results of two sides: 1e-2 for f16, 1e-4 for f32, 1e-10 for f64,
/// 0 for other types.
double tolerance_of(Element element);

/// A result of both sides.
struct Comparison {
  std::string name;
  Element element = Element::bits;
  std::uint64_t count = 0;      ///< elements
  std::uint64_t different = 0;  ///< elements that differ by more than the tolerance
  std::uint64_t first = 0;      ///< index of the first of these
  std::string cpu, device;      ///< that element on both sides
  double largest = 0;           ///< largest relative difference; infinite if only one is finite

  /// "sum: 3 of 100 f32 differ by up to 0.5; element 7 is 1 on the CPU and 2 on the device".
  std::string text() const;
};

/// Elements agree if they are equal or both NaN. Floating-point numbers also agree if they differ
/// by at most `relative` times the largest of three: both magnitudes, and the root mean square of
/// the finite numbers of `cpu`.
///
///   relative  < 0: tolerance_of(element)
Comparison compare(std::string name, Element element, std::span<const std::byte> cpu,
                   std::span<const std::byte> device, double relative = -1);

/// "0.5, 1, -2, ... (1000 f32)": the first `most` elements.
std::string values_text(Element element, std::span<const std::byte> bytes, std::size_t most);

}  // namespace topograd::runtime::hybrid
