// Internal: kernels of Fourier transforms.
#include <topograd/ops/tensor/fft_text.hpp>

#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ops/tensor/kernel_store.hpp>

#include <array>
#include <utility>

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

// Numbers that lie eight apart are in different banks.
constexpr std::string_view kPadded = "uint padded(uint e) { return e + (e >> 3u); }\n";

std::string filled(std::string_view pattern, bool wide) {
  return substitute(pattern.substr(1),
                    {{"V", wide ? "dvec2" : "vec2"},
                     {"S", wide ? "double" : "float"},
                     {"F", number_text("factor", wide)},
                     {"root", wide ? "0.70710678118654752440lf" : "0.70710678118654752440"}});
}

std::string vector(bool wide) { return wide ? "dvec2" : "vec2"; }

class PassWriter {
 public:
  explicit PassWriter(const FftPass& pass) : pass_(pass), lanes_(pass.radix / 8) {}

  KernelText write() {
    KernelParts parts{.name = text("fft_", pass_.radix, "x", pass_.jobs, pass_.wide ? "_f64" : ""),
                      .local_size = {pass_.invocations(), 1, 1}};
    const std::string type = vector(pass_.wide);
    parts.arguments = {{"source", type, Access::read},
                       {"target", type, Access::write},
                       {"roots", type, Access::read}};
    parts.words = {"jobs",    "row_bits",   "stride_bits", "span_bits",
                   "swapped", "factor_low", "factor_high"};
    parts.functions = filled(kComplex, pass_.wide) + filled(kButterflies, pass_.wide) +
                      text("shared ", type, " tile[", pass_.jobs * pass_.line(), "];\n", kPadded);
    load();
    std::uint32_t done = 1;
    for (std::uint32_t left = pass_.radix; left > 1;) {
      const std::uint32_t radix = left >= 8 ? 8 : left;
      if (done > 1) read_tile(radix, done);
      for (std::uint32_t u = 0; u < 8 / radix; ++u) butterfly(radix, u);
      left /= radix;
      if (left > 1) write_tile(radix, done, done > 1);
      if (left > 1) done *= radix;
      last_radix_ = radix;
    }
    pass_.near_store == pass_.near_load ? store(done) : store_across(done);
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  std::string word(std::uint32_t value) const { return text(value, "u"); }
  std::string v(std::uint32_t k) const { return text("v", k); }
  /// Number of butterfly u among those of a stage.
  std::string number(std::uint32_t u) const { return text("(lane + ", word(u * lanes_), ")"); }

  /// w1 to the powers that stand beside numbers 1, 2, ... of a butterfly.
  void turn(std::uint32_t count, std::uint32_t first, std::string_view w) {
    static constexpr std::array<std::pair<int, int>, 8> kParts = {
        {{0, 0}, {0, 0}, {1, 1}, {2, 1}, {2, 2}, {4, 1}, {3, 3}, {4, 3}}};
    for (std::uint32_t q = 1; q < count; ++q) {
      if (q > 1)
        out_.line(vector(pass_.wide), " ", w, q, " = times(", w, unsigned(kParts[q].first), ", ", w,
                  unsigned(kParts[q].second), ");");
      out_.line(v(first + q), " = times(", v(first + q), ", ", w, q, ");");
    }
  }

  std::string long_root(std::string_view k) const {
    return text("times(roots(", word(pass_.radix), " + (", k, " & 1023u)), roots(",
                word(pass_.radix + 1024), " + (", k, " >> 10u)))");
  }

  void load() {
    const std::string jobs = word(pass_.jobs), lanes = word(lanes_);
    out_.line("uint self = gl_LocalInvocationID.x;");
    out_.line("uint first = linear_group() * ", jobs, ";");
    out_.line("uint job = self ", pass_.near_load ? text("% ", jobs) : text("/ ", lanes), ";");
    out_.line("uint lane = self ", pass_.near_load ? text("/ ", jobs) : text("% ", lanes), ";");
    out_.line("uint base = job * ", word(pass_.line()), ";");
    out_.line("uint number = first + job;");
    out_.line("uint j = number & ((1u << stride_bits) - 1u);");
    out_.line("uint from = ((number >> stride_bits) << row_bits) + j;");
    for (std::uint32_t q = 0; q < 8; ++q)
      out_.line(vector(pass_.wide), " ", v(q), " = ", vector(pass_.wide), "(0.0);");
    out_.open("if (number < jobs)");
    for (std::uint32_t q = 0; q < 8; ++q)
      out_.line(v(q), " = source(from + (", number(q), " << stride_bits));");
    out_.close();
    out_.open("if (swapped != 0u)");
    for (std::uint32_t q = 0; q < 8; ++q) out_.line(v(q), " = ", v(q), ".yx;");
    out_.close();
    out_.open("if (span_bits > 0u)");
    out_.line("uint inner = j & ((1u << span_bits) - 1u);");
    out_.line("uint start = lane * inner, step = ", lanes, " * inner;");
    out_.line(vector(pass_.wide), " origin = ", long_root("start"), ";");
    out_.line(vector(pass_.wide), " s1 = ", long_root("step"), ";");
    for (std::uint32_t q = 0; q < 8; ++q) out_.line(v(q), " = times(", v(q), ", origin);");
    turn(8, 0, "s");
    out_.close();
  }

  void butterfly(std::uint32_t radix, std::uint32_t u) {
    std::string call = text("fft", radix, "(");
    for (std::uint32_t q = 0; q < radix; ++q) call += text(q > 0 ? ", " : "", v(u * radix + q));
    out_.line(call, ");");
  }

  /// What lies a radix-th of the transform apart, turned by its place in those of `done`.
  void read_tile(std::uint32_t radix, std::uint32_t done) {
    for (std::uint32_t u = 0; u < 8 / radix; ++u) {
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line(v(u * radix + q), " = tile[base + padded(", number(u), " + ",
                  word(q * (pass_.radix / radix)), ")];");
      const std::string w = text("w", done, "_", u, "_");
      out_.line(vector(pass_.wide), " ", w, "1 = roots((", number(u), " & ", word(done - 1), ") * ",
                word(pass_.radix / (done * radix)), ");");
      turn(radix, u * radix, w);
    }
  }

  void write_tile(std::uint32_t radix, std::uint32_t done, bool was_read) {
    if (was_read) out_.line("barrier();");
    for (std::uint32_t u = 0; u < 8 / radix; ++u) {
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line("tile[base + padded((", number(u), " & ~", word(done - 1), ") * ", word(radix),
                  " + (", number(u), " & ", word(done - 1), ") + ", word(q * done),
                  ")] = ", v(u * radix + q), ";");
    }
    out_.line("barrier();");
  }

  /// Number e of job `j` of a row; what comes out of the last stage lies `done` apart.
  void put(std::string_view e, std::string_view value) {
    out_.line("target(to + (", e, " << span_bits)) = swapped != 0u ? ", value,
              ".yx * factor : ", value, " * factor;");
  }
  void find_target() {
    out_.line(pass_.wide ? "double" : "float", " factor = ", number_text("factor", pass_.wide),
              ";");
    out_.line("uint inside = j & ((1u << span_bits) - 1u);");
    out_.line("uint to = ((number >> stride_bits) << row_bits) + (j - inside) * ",
              word(pass_.radix), " + inside;");
  }

  void store(std::uint32_t done) {
    find_target();
    out_.open("if (number < jobs)");
    for (std::uint32_t u = 0; u < 8 / last_radix_; ++u)
      for (std::uint32_t q = 0; q < last_radix_; ++q)
        put(text("(", number(u), " + ", word(q * done), ")"), v(u * last_radix_ + q));
    out_.close();
  }

  /// Through the tile, so that neighbours write neighbouring numbers.
  void store_across(std::uint32_t done) {
    write_tile(last_radix_, done, done > 1);
    out_.open("for (uint k = 0u; k < 8u; ++k)");
    out_.line("uint at = self + k * ", word(pass_.invocations()), ";");
    out_.line("uint other = at / ", word(pass_.radix), ", e = at % ", word(pass_.radix), ";");
    out_.line("number = first + other;");
    out_.line("j = number & ((1u << stride_bits) - 1u);");
    find_target();
    out_.line(vector(pass_.wide), " z = tile[other * ", word(pass_.line()), " + padded(e)];");
    out_.open("if (number < jobs)");
    put("e", "z");
    out_.close();
    out_.close();
  }

  const FftPass& pass_;
  const std::uint32_t lanes_;
  std::uint32_t last_radix_ = 8;
  Lines out_{1};
};

}  // namespace

std::string FftPass::key() const {
  return text("fft ", radix, " ", jobs, wide ? " f64" : " f32", near_load ? " near" : "",
              near_store ? " near" : " far");
}

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
