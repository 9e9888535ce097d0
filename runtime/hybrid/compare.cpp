// Comparisons by type, and texts of elements.
#include "compare.hpp"

#include "../../ir/machine/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace topograd::runtime::hybrid {
namespace {

template <class T>
T element_at(std::span<const std::byte> bytes, std::uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// IEEE 754 binary16.
double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double number_at(Element element, std::span<const std::byte> bytes, std::uint64_t index) {
  switch (element) {
    case Element::f16: return half(element_at<std::uint16_t>(bytes, index));
    case Element::f32: return element_at<float>(bytes, index);
    case Element::f64: return element_at<double>(bytes, index);
    case Element::i32: return element_at<std::int32_t>(bytes, index);
    case Element::bits:
    case Element::u32: break;
  }
  return element_at<std::uint32_t>(bytes, index);
}

std::string text_at(Element element, std::span<const std::byte> bytes, std::uint64_t index) {
  const double value = number_at(element, bytes, index);
  switch (element) {
    case Element::bits:
      return platform::formatted("0x%08x", element_at<std::uint32_t>(bytes, index));
    case Element::f16: return platform::formatted("%.5g", value);
    case Element::f32: return platform::formatted("%.9g", value);
    case Element::f64: return platform::formatted("%.17g", value);
    case Element::i32:
    case Element::u32: break;
  }
  return platform::formatted("%.0f", value);
}

bool is_floating(Element element) {
  return element == Element::f16 || element == Element::f32 || element == Element::f64;
}

double root_mean_square(Element element, std::span<const std::byte> bytes, std::uint64_t count) {
  double largest = 0, sum = 0;
  std::uint64_t finite = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    const double value = number_at(element, bytes, k);
    if (!std::isfinite(value)) continue;
    ++finite;
    const double size = std::abs(value);
    if (size > largest) sum *= std::pow(largest / size, 2), largest = size;
    if (largest > 0) sum += std::pow(size / largest, 2);
  }
  return finite == 0 ? 0 : largest * std::sqrt(sum / static_cast<double>(finite));
}

/// 0 if they are equal or both NaN, infinite if only one of them is finite.
double relative_difference(double a, double b, double typical) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  const double scale = std::max({std::abs(a), std::abs(b), typical});
  return std::abs(a / scale - b / scale);
}

}  // namespace

double tolerance_of(Element element) {
  switch (element) {
    case Element::f16: return 1e-2;
    case Element::f32: return 1e-4;
    case Element::f64: return 1e-10;
    case Element::bits:
    case Element::i32:
    case Element::u32: break;
  }
  return 0;
}

std::string Comparison::text() const {
  const std::string kind =
      name + ": " + std::to_string(count) + " " + std::string(hybrid::name(element));
  if (different == 0) return kind + " agree within " + platform::formatted("%.2g", largest);
  return name + ": " + std::to_string(different) + " of " + std::to_string(count) + " " +
         std::string(hybrid::name(element)) + " differ by up to " +
         platform::formatted("%.2g", largest) + "; element " + std::to_string(first) + " is " +
         cpu + " on the CPU and " + device + " on the device";
}

Comparison compare(std::string name, Element element, std::span<const std::byte> cpu,
                   std::span<const std::byte> device, double relative) {
  const std::uint64_t count = std::min(cpu.size(), device.size()) / size_of(element);
  Comparison out{
      .name = std::move(name), .element = element, .count = count, .cpu = {}, .device = {}};
  const bool floating = is_floating(element);
  const double tolerance = relative < 0 || !floating ? tolerance_of(element) : relative;
  const double typical = floating ? root_mean_square(element, cpu, count) : 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    const double difference =
        relative_difference(number_at(element, cpu, k), number_at(element, device, k), typical);
    out.largest = std::max(out.largest, difference);
    if (difference <= tolerance) continue;
    if (out.different++ > 0) continue;
    out.first = k;
    out.cpu = text_at(element, cpu, k);
    out.device = text_at(element, device, k);
  }
  return out;
}

std::string values_text(Element element, std::span<const std::byte> bytes, std::size_t most) {
  const std::uint64_t count = bytes.size() / size_of(element);
  std::string out;
  for (std::uint64_t k = 0; k < std::min<std::uint64_t>(count, most); ++k)
    out += (k > 0 ? ", " : "") + text_at(element, bytes, k);
  if (count > most) out += ", ...";
  return out + " (" + std::to_string(count) + " " + std::string(hybrid::name(element)) + ")";
}

}  // namespace topograd::runtime::hybrid
