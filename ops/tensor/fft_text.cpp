// Internal: kernels of Fourier transforms.
#include <topograd/ops/tensor/fft_text.hpp>

#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ops/tensor/kernel_store.hpp>

namespace topograd::ops::detail {
namespace {

using codegen::Lines;
using codegen::substitute;
using codegen::text;

constexpr std::string_view kComplex = R"(
{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
)";

// Butterflies of the forward transform, in place.
constexpr std::string_view kButterflies = R"(
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

std::string filled(std::string_view pattern, bool wide) {
  return substitute(pattern.substr(1),
                    {{"V", wide ? "dvec2" : "vec2"},
                     {"S", wide ? "double" : "float"},
                     {"F", number_text("factor", wide)},
                     {"root", wide ? "0.70710678118654752440lf" : "0.70710678118654752440"}});
}

std::string vector(bool wide) { return wide ? "dvec2" : "vec2"; }
std::string factor_text(bool wide) { return number_text("factor", wide); }

class PassWriter {
 public:
  explicit PassWriter(const FftPass& pass) : pass_(pass) {}

  KernelText write() {
    KernelParts parts{.name = text("fft_", pass_.radix, "x", pass_.jobs, pass_.wide ? "_f64" : ""),
                      .local_size = {pass_.invocations(), 1, 1}};
    const std::string type = vector(pass_.wide);
    parts.arguments = {{"source", type, Access::read},
                       {"target", type, Access::write},
                       {"roots", type, Access::read}};
    parts.words = {"jobs",       "row_length", "span",       "load_near",
                   "store_near", "swapped",    "factor_low", "factor_high"};
    parts.functions = filled(kComplex, pass_.wide) + filled(kButterflies, pass_.wide) +
                      text("shared ", type, " tile[", pass_.jobs * (pass_.radix + 1), "];\n");
    load();
    std::uint32_t done = 1;
    for (std::uint32_t left = pass_.radix; left > 1;) {
      const std::uint32_t radix = left >= 8 ? 8 : left;
      stage(radix, done);
      done *= radix;
      left /= radix;
    }
    store();
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  std::string word(std::uint32_t value) const { return text(value, "u"); }

  /// Job and element of number `k` of an invocation's eight.
  void place(std::string_view near) {
    out_.line("uint at = self + k * ", word(pass_.invocations()), ";");
    out_.line("uint job = ", near, " != 0u ? at % ", word(pass_.jobs), " : at / ",
              word(pass_.radix), ";");
    out_.line("uint e = ", near, " != 0u ? at / ", word(pass_.jobs), " : at % ", word(pass_.radix),
              ";");
    out_.line("uint number = first + job;");
    out_.line("uint row = number / stride, j = number % stride;");
  }

  void load() {
    out_.line("uint self = gl_LocalInvocationID.x;");
    out_.line("uint first = linear_group() * ", word(pass_.jobs), ";");
    out_.line("uint stride = row_length / ", word(pass_.radix), ";");
    out_.open("for (uint k = 0u; k < 8u; ++k)");
    place("load_near");
    out_.line(vector(pass_.wide), " z = ", vector(pass_.wide), "(0.0);");
    out_.open("if (number < jobs)");
    out_.line("z = source(row * row_length + j + e * stride);");
    out_.line("if (swapped != 0u) z = z.yx;");
    out_.close();
    out_.open("if (span > 1u)");
    out_.line("uint turn = e * (j % span);");
    out_.line("z = times(z, times(roots(", word(pass_.radix), " + (turn & 1023u)), roots(",
              word(pass_.radix + 1024), " + (turn >> 10u))));");
    out_.close();
    out_.line("tile[job * ", word(pass_.radix + 1), " + e] = z;");
    out_.close();
    out_.line("barrier();");
  }

  /// Butterflies over numbers that lie radix apart, `done` being the product of earlier ones.
  void stage(std::uint32_t radix, std::uint32_t done) {
    const std::uint32_t lanes = pass_.radix / 8, apart = pass_.radix / radix;
    out_.line("{");
    out_.line("uint base = self / ", word(lanes), " * ", word(pass_.radix + 1), ";");
    for (std::uint32_t u = 0; u < 8 / radix; ++u) {
      out_.line("uint b", u, " = self % ", word(lanes), " + ", word(u * lanes), ";");
      if (done > 1)
        out_.line("uint t", u, " = (b", u, " & ", word(done - 1), ") * ",
                  word(pass_.radix / (done * radix)), ";");
      for (std::uint32_t q = 0; q < radix; ++q) {
        const std::string from = text("tile[base + b", u, " + ", word(q * apart), "]");
        const bool turned = done > 1 && q > 0;
        out_.line(vector(pass_.wide), " v", u * radix + q, " = ",
                  turned ? text("times(", from, ", roots(t", u, " * ", word(q), "))") : from, ";");
      }
      std::string call = text("fft", radix, "(");
      for (std::uint32_t q = 0; q < radix; ++q) call += text(q > 0 ? ", v" : "v", u * radix + q);
      out_.line(call, ");");
    }
    out_.line("barrier();");
    for (std::uint32_t u = 0; u < 8 / radix; ++u) {
      out_.line("uint to", u, " = base + (b", u, " & ~", word(done - 1), ") * ", word(radix),
                " + (b", u, " & ", word(done - 1), ");");
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line("tile[to", u, " + ", word(q * done), "] = v", u * radix + q, ";");
    }
    out_.line("barrier();");
    out_.line("}");
  }

  void store() {
    out_.open("for (uint k = 0u; k < 8u; ++k)");
    place("store_near");
    out_.open("if (number < jobs)");
    out_.line(vector(pass_.wide), " z = tile[job * ", word(pass_.radix + 1), " + e] * ",
              factor_text(pass_.wide), ";");
    out_.line("uint inner = j % span;");
    out_.line("uint to = row * row_length + (j - inner) * ", word(pass_.radix),
              " + inner + e * span;");
    out_.line("target(to) = swapped != 0u ? z.yx : z;");
    out_.close();
    out_.close();
  }

  const FftPass& pass_;
  Lines out_{1};
};

}  // namespace

std::string FftPass::key() const { return text("fft ", radix, " ", jobs, wide ? " f64" : " f32"); }

KernelText fft_pass_kernel(const FftPass& pass) { return PassWriter(pass).write(); }

KernelText chirp_kernel(bool wide) {
  KernelParts parts{.name = wide ? "fft_chirp_f64" : "fft_chirp"};
  parts.arguments = {{"source", vector(wide), Access::read},
                     {"chirp", vector(wide), Access::read},
                     {"target", vector(wide), Access::write}};
  parts.words = {"count",   "row_length", "source_length", "valid",
                 "swap_in", "swap_out",   "factor_low",    "factor_high"};
  parts.functions = filled(kComplex, wide);
  parts.body = filled(R"(
  uint stride = gl_NumWorkGroups.x * 256u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
    uint row = i / row_length, k = i % row_length;
    {V} z = {V}(0.0);
    if (k < valid) {
      z = source(row * source_length + k);
      if (swap_in != 0u) z = z.yx;
      z = times(z, chirp(k)) * {F};
    }
    target(i) = swap_out != 0u ? z.yx : z;
  }
)",
                      wide);
  return make_kernel(parts);
}

KernelText short_dft_kernel(bool wide) {
  KernelParts parts{.name = wide ? "fft_short_f64" : "fft_short"};
  parts.arguments = {{"source", vector(wide), Access::read},
                     {"target", vector(wide), Access::write},
                     {"roots", vector(wide), Access::read}};
  parts.words = {"count", "row_length", "swapped", "factor_low", "factor_high"};
  parts.functions = filled(kComplex, wide);
  parts.body = filled(R"(
  uint stride = gl_NumWorkGroups.x * 256u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
    uint k = i % row_length, row = i - k;
    {V} sum = {V}(0.0);
    for (uint j = 0u; j < row_length; ++j) {
      {V} z = source(row + j);
      if (swapped != 0u) z = z.yx;
      sum += times(z, roots(j * k % row_length));
    }
    sum *= {F};
    target(i) = swapped != 0u ? sum.yx : sum;
  }
)",
                      wide);
  return make_kernel(parts);
}

}  // namespace topograd::ops::detail
