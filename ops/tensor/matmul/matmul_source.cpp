// The shaders of matrix products: tiles in shared memory with register tiles of four by four
// numbers; and one number of C per invocation, for products so thin that tiles would be mostly
// empty.
#include "matmul_source.hpp"

#include "../../../codegen/glsl/text.hpp"

namespace topograd::ops::detail {
namespace {

using codegen::Lines;
using codegen::text;

/// A tile is 16 deep and `tile()` long, with vectors of four numbers along its length.
using Operand = MatmulOperand;

class MatmulWriter {
 public:
  explicit MatmulWriter(const MatmulKernel& kernel) : kernel_(kernel) {}

  ComputeKernel write() {
    KernelParts parts;
    parts.name = kernel_.name();
    parts.arguments = {{"a", std::string(stored()), Access::read},
                       {"b", std::string(stored()), Access::read},
                       {"c", std::string(scalar()), Access::write}};
    parts.words = {"rows", "columns", "depth", "a_step", "a_batch", "b_step", "b_batch", "c_batch"};
    tiles();
    loader(a_);
    loader(b_);
    parts.functions = out_.text();
    out_ = Lines(1);
    begin();
    out_.open("for (uint k0 = 0u; k0 < depth; k0 += 16u)");
    stage();
    multiply();
    out_.close();
    store();
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  bool wide() const { return kernel_.storage == MatmulStorage::f64; }
  std::string_view scalar() const { return wide() ? "double" : "float"; }
  std::string_view vector() const { return wide() ? "dvec4" : "vec4"; }
  std::string_view stored() const {
    return kernel_.storage == MatmulStorage::f16 ? "uint" : scalar();
  }

  void tiles() {
    for (const Operand& o : {a_, b_})
      out_.line("shared ", vector(), " ", o.name, "_tile[16][", 16 * kernel_.quarters, "];");
    out_.line();
  }

  std::string element(const Operand& o, std::string_view at) const {
    if (kernel_.storage != MatmulStorage::f16) return text(o.name, "(", at, ")");
    return text("half_of(", o.name, "((", at, ") >> 1u), ", at, ")");
  }

  /// Loads four numbers at one depth, zero beyond the operand.
  void loader(const Operand& o) {
    if (kernel_.storage == MatmulStorage::f16 && o.name == "a") {
      out_.open("float half_of(uint word, uint element)");
      out_.line("vec2 pair = unpackHalf2x16(word);");
      out_.line("return (element & 1u) == 0u ? pair.x : pair.y;");
      out_.close();
      out_.line();
    }
    out_.open(vector(), " load_", o.name, "(uint first, uint at, uint k)");
    const std::string step = text(o.name, "_step");
    const std::string base =
        o.deep_lines ? text("first + at * ", step, " + k") : text("first + k * ", step, " + at");
    const std::string next = o.deep_lines ? step : "1u";
    out_.line("uint e = ", base, ";");
    out_.open("if (k < depth && at + 3u < ", o.length, ")");
    out_.line("return ", vector(), "(", element(o, "e"), ", ", element(o, text("e + ", next)), ", ",
              element(o, text("e + 2u * ", next)), ", ", element(o, text("e + 3u * ", next)), ");");
    out_.close();
    out_.line(vector(), " v = ", vector(), "(0.0);");
    out_.line("if (k >= depth) return v;");
    for (unsigned i = 0; i < 3; ++i) {
      const std::string at = i == 0 ? "e" : text("e + ", i, "u * ", next);
      out_.line("if (at + ", i, "u < ", o.length, ") v.", std::string_view("xyz").substr(i, 1),
                " = ", element(o, at), ";");
    }
    out_.line("return v;");
    out_.close();
    out_.line();
  }

  void begin() {
    out_.line("uint self = gl_LocalInvocationIndex;");
    out_.line("uint tx = self & 15u, ty = self >> 4u;");
    out_.line("uint column0 = gl_WorkGroupID.x * ", kernel_.tile(), "u;");
    out_.line("uint row0 = gl_WorkGroupID.y * ", kernel_.tile(), "u;");
    out_.line("uint a0 = gl_WorkGroupID.z * a_batch;");
    out_.line("uint b0 = gl_WorkGroupID.z * b_batch;");
    for (unsigned r = 0; r < 4 * kernel_.quarters; ++r) {
      for (unsigned h = 0; h < kernel_.quarters; ++h)
        out_.line(vector(), " c", r, "_", h, " = ", vector(), "(0.0);");
    }
    fetch("0u", true);
  }

  /// Position of vector `u` of an invocation in the tile: depth and index. Neighbours read
  /// neighbouring memory.
  std::string depth_of(const Operand& o, unsigned u) const {
    if (o.deep_lines) return "(self & 15u)";
    return kernel_.quarters == 1 ? "(self >> 4u)" : text("((self >> 5u) + ", 8 * u, "u)");
  }
  std::string place_of(const Operand& o, unsigned u) const {
    if (o.deep_lines) return text("((self >> 4u) + ", 16 * u, "u)");
    return kernel_.quarters == 1 ? "(self & 15u)" : "(self & 31u)";
  }

  /// Reads this invocation's share of the tiles at depth `k0`.
  void fetch(std::string_view k0, bool declare) {
    for (const Operand& o : {a_, b_}) {
      for (unsigned u = 0; u < kernel_.quarters; ++u) {
        out_.line(declare ? text(vector(), " ") : "", "next_", o.name, u, " = load_", o.name, "(",
                  o.name, "0, ", o.origin, " + 4u * ", place_of(o, u), ", ", k0, " + ",
                  depth_of(o, u), ");");
      }
    }
  }

  void stage() {
    out_.line("barrier();");
    for (const Operand& o : {a_, b_}) {
      for (unsigned u = 0; u < kernel_.quarters; ++u) {
        // Distributes the vectors of one depth over the banks.
        const std::string place =
            o.deep_lines ? text(place_of(o, u), " ^ (", depth_of(o, u), " & 7u)") : place_of(o, u);
        out_.line(o.name, "_tile[", depth_of(o, u), "][", place, "] = next_", o.name, u, ";");
      }
    }
    out_.line("barrier();");
    fetch("k0 + 16u", false);
  }

  void multiply() {
    out_.open("for (uint k = 0u; k < 16u; ++k)");
    for (const Operand& o : {a_, b_}) {
      const std::string own = o.name == "a" ? "ty" : "tx";
      const std::string place = o.deep_lines ? text("(", own, " ^ (k & 7u))") : own;
      for (unsigned u = 0; u < kernel_.quarters; ++u)
        out_.line(vector(), " ", o.name, "_", u, " = ", o.name, "_tile[k][", place, " + ", 16 * u,
                  "u];");
    }
    for (unsigned r = 0; r < 4 * kernel_.quarters; ++r) {
      const std::string a = text("a_", r / 4, ".", std::string_view("xyzw").substr(r % 4, 1));
      for (unsigned h = 0; h < kernel_.quarters; ++h)
        out_.line("c", r, "_", h, " = fma(", vector(), "(", a, "), b_", h, ", c", r, "_", h, ");");
    }
    out_.close();
  }

  void store() {
    for (unsigned r = 0; r < 4 * kernel_.quarters; ++r) {
      out_.line("{");
      out_.line("  uint row = row0 + ", 64 * (r / 4) + r % 4, "u + 4u * ty;");
      for (unsigned h = 0; h < kernel_.quarters; ++h) {
        out_.line("  uint column_", h, " = column0 + ", 64 * h, "u + 4u * tx;");
        out_.line("  uint at_", h, " = gl_WorkGroupID.z * c_batch + row * columns + column_", h,
                  ";");
        for (unsigned i = 0; i < 4; ++i)
          out_.line("  if (row < rows && column_", h, " + ", i, "u < columns) c(at_", h, " + ", i,
                    "u) = c", r, "_", h, "[", i, "];");
      }
      out_.line("}");
    }
  }

  const MatmulKernel& kernel_;
  const Operand a_ = Operand::a(kernel_.a_transposed), b_ = Operand::b(kernel_.b_transposed);
  Lines out_;
};

constexpr std::string_view kHalfOf = R"(
float half_of(uint word, uint element) {
  vec2 pair = unpackHalf2x16(word);
  return (element & 1u) == 0u ? pair.x : pair.y;
}
)";

constexpr std::string_view kThin = R"(
  uint a0 = gl_WorkGroupID.z * a_batch, b0 = gl_WorkGroupID.z * b_batch;
  uint count = rows * columns, stride = gl_NumWorkGroups.x * 256u;
  for (uint e = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x; e < count; e += stride) {
    uint row = e / columns, column = e % columns;
    uint at_a = a0 + {a_first}, at_b = b0 + {b_first};
    {T} total = {T}(0.0);
    for (uint k = 0u; k < depth; ++k) {
      total = fma({a}, {b}, total);
      at_a += {a_next};
      at_b += {b_next};
    }
    c(gl_WorkGroupID.z * c_batch + e) = total;
  }
)";

ComputeKernel thin_kernel(const MatmulKernel& kernel) {
  const bool half = kernel.storage == MatmulStorage::f16;
  const std::string scalar = kernel.storage == MatmulStorage::f64 ? "double" : "float";
  const std::string stored = half ? "uint" : scalar;
  KernelParts parts{.name = kernel.name()};
  parts.arguments = {
      {"a", stored, Access::read}, {"b", stored, Access::read}, {"c", scalar, Access::write}};
  parts.words = {"rows", "columns", "depth", "a_step", "a_batch", "b_step", "b_batch", "c_batch"};
  if (half) parts.functions = std::string(kHalfOf.substr(1));
  const bool at = kernel.a_transposed, bt = kernel.b_transposed;
  parts.body = codegen::substitute(kThin.substr(1),
                                   {{"T", scalar},
                                    {"a_first", at ? "row" : "row * a_step"},
                                    {"b_first", bt ? "column * b_step" : "column"},
                                    {"a_next", at ? "a_step" : "1u"},
                                    {"b_next", bt ? "1u" : "b_step"},
                                    {"a", half ? "half_of(a(at_a >> 1u), at_a)" : "a(at_a)"},
                                    {"b", half ? "half_of(b(at_b >> 1u), at_b)" : "b(at_b)"}});
  return make_kernel(parts);
}

}  // namespace

std::string MatmulKernel::name() const {
  static constexpr std::string_view kStored[] = {"f16", "f32", "f64"};
  return text("matmul_", kStored[static_cast<std::size_t>(storage)], a_transposed ? "_t" : "_n",
              b_transposed ? "t_" : "n_", thin ? std::string("thin") : std::to_string(tile()));
}

ComputeKernel matmul_kernel(const MatmulKernel& kernel) {
  return kernel.thin ? thin_kernel(kernel) : MatmulWriter(kernel).write();
}

}  // namespace topograd::ops::detail
