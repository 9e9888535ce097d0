// GLSL source of Philox and of the distributions.
#include "random_source.hpp"

#include <string>
#include <string_view>

namespace topograd::ops {
namespace {

constexpr std::string_view kPhilox = R"(uvec4 philox(uint c0, uint c1, uint c2, uint k0, uint k1) {
  uint c3 = 0u;
  for (uint round = 0u; round < 10u; ++round) {
    uint a_high, a_low, b_high, b_low;
    umulExtended(0xD2511F53u, c0, a_high, a_low);
    umulExtended(0xCD9E8D57u, c2, b_high, b_low);
    c0 = b_high ^ c1 ^ k0;
    c2 = a_high ^ c3 ^ k1;
    c1 = b_low;
    c3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return uvec4(c0, c1, c2, c3);
}
)";

// Range reductions use integers and are exact. The polynomials are from Cephes (Moshier, Methods
// and Programs for Mathematical Functions, 1989): logf, sinf and cosf.
constexpr std::string_view kNormal = R"(
// sqrt(-2 log((w + 1) / 2^32)): near 1 by how much is missing, else by mantissa and exponent.
float radius(uint w) {
  bool near = w >= 0xB504F333u;
  uint bits = floatBitsToUint(float(w + 1u)) + (0x3f800000u - 0x3f3504f3u);
  float k = near ? 0.0 : float(int(bits >> 23) - 159);
  float m = uintBitsToFloat((bits & 0x007fffffu) + 0x3f3504f3u);
  float f = near ? float(~w) * -2.3283064365386963e-10 : m - 1.0;
  float p = fma(7.0376836292e-2, f, -1.1514610310e-1);
  p = fma(p, f, 1.1676998740e-1);
  p = fma(p, f, -1.2420140846e-1);
  p = fma(p, f, 1.4249322787e-1);
  p = fma(p, f, -1.6668057665e-1);
  p = fma(p, f, 2.0000714765e-1);
  p = fma(p, f, -2.4999993993e-1);
  p = fma(p, f, 3.3333331174e-1);
  float z = f * f;
  float low = fma(k, -2.12194440e-4, p * f * z);
  float y = -2.0 * fma(k, 0.693359375, f + fma(-0.5, z, low));
  return y > 0.0 ? y * inversesqrt(y) : 0.0;
}

// cos(2 pi w / 2^32): a quarter, and what is left of it, between -pi/4 and pi/4.
float turned(uint w) {
  uint quarter = (w + 0x20000000u) >> 30;
  float x = float(int(w - (quarter << 30))) * 1.4629180792671596e-9;
  float z = x * x;
  float s = fma(fma(-1.9515295891e-4, z, 8.3321608736e-3), z, -1.6666654611e-1);
  s = fma(s * z, x, x);
  float c = fma(fma(2.443315711809948e-5, z, -1.388731625493765e-3), z, 4.166664568298827e-2);
  c = fma(c * z, z, fma(-0.5, z, 1.0));
  float y = (quarter & 1u) == 0u ? c : s;
  return quarter == 1u || quarter == 2u ? -y : y;
}
)";

std::string_view numbers(RandomKind kind) {
  switch (kind) {
    case RandomKind::words: return "uvec4 v = first;\n";
    case RandomKind::uniform: return "vec4 v = vec4(first >> 8u) * 5.9604644775390625e-8;\n";
    case RandomKind::normal:
      return R"(uvec4 second = philox(low, high, stream + 1u, seed_low, seed_high);
  vec4 v = vec4(radius(first.x) * turned(second.x), radius(first.y) * turned(second.y),
                radius(first.z) * turned(second.z), radius(first.w) * turned(second.w));
)";
  }
  return {};
}

}  // namespace

ComputeKernel random_kernel(RandomKind kind, bool quads, std::uint32_t local_size) {
  const bool integer = kind == RandomKind::words;
  KernelParts parts{.name = kind == RandomKind::words     ? "random_words"
                            : kind == RandomKind::uniform ? "random_uniform"
                                                          : "random_normal",
                    .local_size = {local_size, 1, 1}};
  const char* vector = integer ? "uvec4" : "vec4";
  const char* element = integer ? "uint" : "float";
  parts.arguments = {{"y", quads ? vector : element, Access::write}};
  parts.words = {"count", "counter_low", "counter_high", "seed_low", "seed_high", "stream"};
  parts.functions = kPhilox;
  if (kind == RandomKind::normal) parts.functions += kNormal;
  parts.body = "  uint i = linear_item();\n";
  if (quads) parts.body += "  if (i >= count) return;\n";
  parts.body +=
      "  uint low = counter_low + i, high = counter_high + (low < i ? 1u : 0u);\n"
      "  uvec4 first = philox(low, high, stream, seed_low, seed_high);\n  ";
  parts.body += numbers(kind);
  parts.body += quads ? "  y(i) = v;\n"
                      : "  for (uint k = 0u; k < 4u; ++k)\n"
                        "    if (4u * i + k < count) y(4u * i + k) = v[k];\n";
  return make_kernel(parts);
}

}  // namespace topograd::ops
