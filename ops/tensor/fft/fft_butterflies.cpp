// Internal: complex numbers and butterflies in kernels of Fourier transforms.
#include "fft_butterflies.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../../ir/machine/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace topograd::ops::detail {
namespace {

using codegen::substitute;
using codegen::text;

constexpr std::string_view kComplex = R"(
{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
)";

// Butterflies of the forward transform, in place.
constexpr std::string_view kPowers = R"(
{V} turned({V} a) { return {V}(a.y, -a.x); }  // times -i
void fft2(inout {V} a, inout {V} b) {
  {V} sum = a + b;
  b = a - b;
  a = sum;
}
void fft4(inout {V} a, inout {V} b, inout {V} c, inout {V} d) {
  fft2(a, c);
  fft2(b, d);
  d = turned(d);
  fft2(a, b);
  fft2(c, d);
  {V} second = c;
  c = b;
  b = second;
}
void fft8(inout {V} a, inout {V} b, inout {V} c, inout {V} d, inout {V} e, inout {V} f, inout {V} g,
          inout {V} h) {
  const {S} half_root = {S}({root});
  fft4(a, c, e, g);
  fft4(b, d, f, h);
  d = half_root * {V}(d.x + d.y, d.y - d.x);
  f = turned(f);
  h = half_root * {V}(h.y - h.x, -h.x - h.y);
  {V} x0 = a + b, x1 = c + d, x2 = e + f, x3 = g + h;
  {V} x4 = a - b, x5 = c - d, x6 = e - f, x7 = g - h;
  a = x0; b = x1; c = x2; d = x3; e = x4; f = x5; g = x6; h = x7;
}
)";

// Four transforms of four numbers across, twiddles, four along; then reordering.
constexpr std::string_view kSixteen = R"(
void fft16(inout {V} v0, inout {V} v1, inout {V} v2, inout {V} v3, inout {V} v4, inout {V} v5,
           inout {V} v6, inout {V} v7, inout {V} v8, inout {V} v9, inout {V} v10, inout {V} v11,
           inout {V} v12, inout {V} v13, inout {V} v14, inout {V} v15) {
  const {V} w1 = {V}({cosine}, -{sine}), w3 = {V}({sine}, -{cosine});
  const {S} half_root = {S}({root});
  fft4(v0, v4, v8, v12);
  fft4(v1, v5, v9, v13);
  fft4(v2, v6, v10, v14);
  fft4(v3, v7, v11, v15);
  v5 = times(v5, w1);
  v9 = half_root * {V}(v9.x + v9.y, v9.y - v9.x);
  v13 = times(v13, w3);
  v6 = half_root * {V}(v6.x + v6.y, v6.y - v6.x);
  v10 = turned(v10);
  v14 = half_root * {V}(v14.y - v14.x, -v14.x - v14.y);
  v7 = times(v7, w3);
  v11 = half_root * {V}(v11.y - v11.x, -v11.x - v11.y);
  v15 = -times(v15, w1);
  fft4(v0, v1, v2, v3);
  fft4(v4, v5, v6, v7);
  fft4(v8, v9, v10, v11);
  fft4(v12, v13, v14, v15);
  {V} other;
  other = v1; v1 = v4; v4 = other;
  other = v2; v2 = v8; v8 = other;
  other = v3; v3 = v12; v12 = other;
  other = v6; v6 = v9; v9 = other;
  other = v7; v7 = v13; v13 = other;
  other = v11; v11 = v14; v14 = other;
}
)";

/// Transforms of four numbers across, twiddles, and of eight along.
std::string fft32_source(bool wide) {
  const std::string v = wide ? "dvec2" : "vec2";
  const char* suffix = wide ? "lf" : "";
  const auto number = [&](double x) { return platform::formatted("%.17f", x) + suffix; };
  std::string out = "void fft32(";
  for (std::uint32_t k = 0; k < 32; ++k) out += text(k > 0 ? ", " : "", "inout ", v, " v", k);
  out += ") {\n";
  for (std::uint32_t k = 0; k < 8; ++k)
    out += text("  fft4(v", k, ", v", k + 8, ", v", k + 16, ", v", k + 24, ");\n");
  for (std::uint32_t row = 1; row < 4; ++row) {
    for (std::uint32_t k = 1; k < 8; ++k) {
      const double angle = -2 * std::numbers::pi * row * k / 32;
      out += text("  v", 8 * row + k, " = times(v", 8 * row + k, ", ", v, "(",
                  number(std::cos(angle)), ", ", number(std::sin(angle)), "));\n");
    }
  }
  for (std::uint32_t row = 0; row < 4; ++row) {
    out += "  fft8(";
    for (std::uint32_t k = 0; k < 8; ++k) out += text(k > 0 ? ", v" : "v", 8 * row + k);
    out += ");\n";
  }
  for (std::uint32_t k = 0; k < 32; ++k) out += text("  ", v, " x", k, " = v", k, ";\n");
  for (std::uint32_t k = 0; k < 32; ++k) out += text("  v", k, " = x", 8 * (k % 4) + k / 4, ";\n");
  return out + "}\n";
}

/// Butterfly of an odd prime size p, in place: combines inputs k and p - k to sums and differences.
std::string odd_butterfly(std::uint32_t p, bool wide) {
  const std::string v = wide ? "dvec2" : "vec2", s = wide ? "double" : "float";
  const char* suffix = wide ? "lf" : "";
  std::string out = text("void fft", p, "(");
  for (std::uint32_t k = 0; k < p; ++k) out += text(k > 0 ? ", " : "", "inout ", v, " a", k);
  out += ") {\n";
  const std::uint32_t half = p / 2;
  const auto number = [&](double x) { return platform::formatted("%.17f", x) + suffix; };
  for (std::uint32_t k = 1; k <= half; ++k)
    out +=
        text("  ", v, " s", k, " = a", k, " + a", p - k, ", d", k, " = a", k, " - a", p - k, ";\n");
  for (std::uint32_t k = 1; k <= half; ++k) {
    std::string even = "a0", odd;
    for (std::uint32_t j = 1; j <= half; ++j) {
      const double angle = 2 * std::numbers::pi * (j * k % p) / p;
      even += text(" + ", number(std::cos(angle)), " * s", j);
      odd += text(j > 1 ? " + " : "", number(std::sin(angle)), " * d", j);
    }
    out += text("  ", v, " e", k, " = ", even, ";\n  ", v, " o", k, " = turned(", odd, ");\n");
  }
  out += "  a0 +=";
  for (std::uint32_t k = 1; k <= half; ++k) out += text(k > 1 ? " + s" : " s", k);
  out += ";\n";
  for (std::uint32_t k = 1; k <= half; ++k)
    out += text("  a", k, " = e", k, " + o", k, ";\n  a", p - k, " = e", k, " - o", k, ";\n");
  return out + "}\n";
}

/// The source for f32 or f64, from its second byte on.
std::string fft_filled(std::string_view pattern, bool wide) {
  return substitute(pattern.substr(1),
                    {{"V", wide ? "dvec2" : "vec2"},
                     {"S", wide ? "double" : "float"},
                     {"root", wide ? "0.70710678118654752440lf" : "0.70710678118654752440"},
                     {"cosine", wide ? "0.92387953251128675613lf" : "0.92387953251128675613"},
                     {"sine", wide ? "0.38268343236508977173lf" : "0.38268343236508977173"}});
}

}  // namespace

std::string butterflies(std::span<const std::uint32_t> sizes, bool wide) {
  const auto has = [&](std::uint32_t size) {
    return std::ranges::find(sizes, size) != sizes.end();
  };
  std::string out = fft_filled(kComplex, wide) + fft_filled(kPowers, wide);
  if (has(32)) out += fft32_source(wide);
  if (has(16)) out += fft_filled(kSixteen, wide);
  for (const std::uint32_t p : {3u, 5u, 7u}) {
    if (has(p)) out += odd_butterfly(p, wide);
  }
  return out;
}

}  // namespace topograd::ops::detail
