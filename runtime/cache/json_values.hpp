// JSON from outside: input of any depth, numbers that fit, values for messages.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace topograd::runtime {

using Json = nlohmann::ordered_json;

/// Byte offset of the first list or object inside more than `deepest` others, or npos. The text
/// need not be JSON. Cost: linear.
inline std::size_t find_too_deep(std::string_view text, std::size_t deepest) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string && c == '\\') ++at;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if ((c == '[' || c == '{') && depth++ == deepest) return at;
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return std::string_view::npos;
}

/// Json::parse() that is safe for any depth: the library copies values on the stack while it reads
/// an object. Throws Json::parse_error also for more than 256 nested lists and objects.
inline Json parse_json(std::string_view text) {
  constexpr std::size_t kDeepest = 256;
  if (const std::size_t at = find_too_deep(text, kDeepest); at != std::string_view::npos)
    throw Json::parse_error::create(
        101, at + 1,
        "more than " + std::to_string(kDeepest) + " lists and objects inside of each other",
        nullptr);
  return Json::parse(text);
}

/// The value in one line of at most 43 ASCII characters; lists and objects by their kind alone.
inline std::string shown(const Json& json) {
  constexpr std::size_t kLongest = 40;
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list of " + std::to_string(json.size());
  const std::string text = json.dump(-1, ' ', true);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

/// The text of an exception of the JSON library without its class and location, as ASCII:
/// "[json.exception.parse_error.101] parse error at line 1, column 2: what" becomes "what".
///
///   with_location  keeps "line 1, column 2: "
inline std::string json_error_text(const std::string& message, bool with_location = false) {
  std::size_t first = message.find("] ");
  first = first == std::string::npos ? 0 : first + 2;
  const std::size_t line = message.find("line ", first), column = message.find("column ", first);
  const std::size_t colon = column == std::string::npos ? column : message.find(": ", column);
  const bool placed = line != std::string::npos && colon != std::string::npos;
  std::string out = message.substr(!placed ? first : with_location ? line : colon + 2);
  for (char& c : out)
    c = static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
  return out;
}

/// A whole number >= 0 that T can hold, also written as 1e3 or 2.0; nothing for any other value.
template <std::integral T>
std::optional<T> whole_number(const Json& json) {
  if (json.is_number_float()) {
    const auto value = json.get<double>();
    constexpr double kLargest = 9007199254740992;  // 2^53: larger ones are not exact
    const double most = std::min(kLargest, static_cast<double>(std::numeric_limits<T>::max()));
    if (!(value >= 0 && value <= most) || value != std::floor(value)) return std::nullopt;
    return static_cast<T>(value);
  }
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return std::nullopt;
  return static_cast<T>(value);
}

}  // namespace topograd::runtime
