// Small pieces of GLSL text: lines with indentation, literals, identifiers.
#pragma once

#include "../kernel.hpp"
#include "../precision.hpp"

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::codegen {

inline void append(std::string& out, std::string_view part) { out += part; }
template <std::unsigned_integral T>
void append(std::string& out, T part) {
  out += std::to_string(part);
}

/// Concatenates the parts; numbers in decimal.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

/// Lines of source, indented by two blanks per level.
class Lines {
 public:
  explicit Lines(int depth = 0) : depth_(depth) {}

  template <class... Parts>
  void line(const Parts&... parts) {
    const std::string content = codegen::text(parts...);
    if (!content.empty()) out_.append(static_cast<std::size_t>(2 * depth_), ' ');
    out_ += content;
    out_ += '\n';
  }
  /// Adds a line that ends in " {" and indents the following ones.
  template <class... Parts>
  void open(const Parts&... parts) {
    line(parts..., " {");
    ++depth_;
  }
  void close(std::string_view end = "}") {
    --depth_;
    line(end);
  }

  void set_depth(int depth) { depth_ = depth; }

  /// Several lines, each with its own indentation on top.
  void lines(std::string_view block);

  const std::string& text() const { return out_; }

 private:
  std::string out_;
  int depth_;
};

Element element_of(Precision precision);
/// "float" or "double".
std::string_view scalar_type(Precision precision);

/// A literal that reads back to `value` rounded to the precision: 0.5, (-2.0), 0.1lf; NaN and
/// infinities by their bits. Negative numbers are in parentheses.
std::string literal(double value, Precision precision);

/// The same number, made from the uniform `zero_bits` so that the driver's compiler does not know
/// it.
std::string hidden_literal(double value, Precision precision);

/// "3u".
std::string unsigned_literal(std::uint64_t value);

/// A replacement of {key} in a pattern, applied in order.
struct Replacement {
  std::string_view key;  ///< without braces
  std::string value;
};
std::string substitute(std::string_view pattern, std::initializer_list<Replacement> replacements);

/// True for a letter or underscore followed by letters, digits and underscores.
bool is_identifier(std::string_view text);

}  // namespace topograd::codegen
