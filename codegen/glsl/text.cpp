// Small pieces of GLSL text: literals, identifiers and templates.
#include "text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace topograd::codegen {
namespace {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 20> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16).ptr;
  return "0x" + std::string(buffer.data(), end) + "u";
}

// Writes NaN and infinities, which have no literals. `also` is added to the highest word.
std::string by_bits(double value, Precision precision, std::string_view also) {
  if (precision == Precision::f32) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return text("uintBitsToFloat(", hexadecimal(bits), also, ")");
  }
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return text("packDouble2x32(uvec2(", hexadecimal(bits & 0xffffffffu), ", ",
              hexadecimal(bits >> 32), also, "))");
}

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// Shader compilers read a decimal as double and round that. If double rounding would change the
// shortest decimal of a float, its exact double is printed.
std::string float_digits(float value) {
  std::string digits = shortest(value);
  double as_double = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), as_double);
  return static_cast<float>(as_double) == value ? digits : shortest(static_cast<double>(value));
}

}  // namespace

void Lines::lines(std::string_view block) {
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    line(block.substr(0, end));
    block.remove_prefix(std::min(end + 1, block.size()));
  }
}

Element element_of(Precision precision) {
  return precision == Precision::f32 ? Element::f32 : Element::f64;
}

std::string_view scalar_type(Precision precision) {
  return precision == Precision::f32 ? "float" : "double";
}

std::string literal(double value, Precision precision) {
  const bool single = precision == Precision::f32;
  const double rounded = single ? static_cast<double>(static_cast<float>(value)) : value;
  if (!std::isfinite(rounded)) return by_bits(rounded, precision, "");
  std::string digits = single ? float_digits(static_cast<float>(value)) : shortest(value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  if (!single) digits += "lf";
  return std::signbit(rounded) ? "(" + digits + ")" : digits;
}

// Not "|": a compiler that tracks single bits recognises a NaN through it.
std::string hidden_literal(double value, Precision precision) {
  return by_bits(value, precision, " ^ zero_bits");
}

std::string unsigned_literal(std::uint64_t value) { return std::to_string(value) + "u"; }

std::string substitute(std::string_view pattern, std::initializer_list<Replacement> replacements) {
  std::string out;
  while (!pattern.empty()) {
    const std::size_t brace = pattern.find('{');
    out += pattern.substr(0, brace);
    if (brace == std::string_view::npos) break;
    pattern.remove_prefix(brace);
    bool found = false;
    for (const Replacement& r : replacements) {
      const std::size_t length = r.key.size() + 2;
      if (pattern.size() < length || pattern[length - 1] != '}') continue;
      if (pattern.substr(1, r.key.size()) != r.key) continue;
      out += r.value;
      pattern.remove_prefix(length);
      found = true;
      break;
    }
    if (found) continue;
    out += '{';
    pattern.remove_prefix(1);
  }
  return out;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

}  // namespace topograd::codegen
