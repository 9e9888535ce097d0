// The shaders of matrix products: tiles in shared memory with register tiles of four by four
// numbers; and one number of C per invocation, for products so thin that tiles would be mostly
// empty.
#include "matmul_source.hpp"

#include <string_view>

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
  std::string position_of(const Operand& o, unsigned u) const {
    if (o.deep_lines) return text("((self >> 4u) + ", 16 * u, "u)");
    return kernel_.quarters == 1 ? "(self & 15u)" : "(self & 31u)";
  }

  /// Reads this invocation's share of the tiles at depth `k0`.
  void fetch(std::string_view k0, bool declare) {
    for (const Operand& o : {a_, b_}) {
      for (unsigned u = 0; u < kernel_.quarters; ++u) {
        out_.line(declare ? text(vector(), " ") : "", "next_", o.name, u, " = load_", o.name, "(",
                  o.name, "0, ", o.origin, " + 4u * ", position_of(o, u), ", ", k0, " + ",
                  depth_of(o, u), ");");
      }
    }
  }

  void stage() {
    out_.line("barrier();");
    for (const Operand& o : {a_, b_}) {
      for (unsigned u = 0; u < kernel_.quarters; ++u) {
        // Distributes the vectors of one depth over the banks.
        const std::string position = o.deep_lines
                                         ? text(position_of(o, u), " ^ (", depth_of(o, u), " & 7u)")
                                         : position_of(o, u);
        out_.line(o.name, "_tile[", depth_of(o, u), "][", position, "] = next_", o.name, u, ";");
      }
    }
    out_.line("barrier();");
    fetch("k0 + 16u", false);
  }

  void multiply() {
    out_.open("for (uint k = 0u; k < 16u; ++k)");
    for (const Operand& o : {a_, b_}) {
      const std::string own = o.name == "a" ? "ty" : "tx";
      const std::string position = o.deep_lines ? text("(", own, " ^ (k & 7u))") : own;
      for (unsigned u = 0; u < kernel_.quarters; ++u)
        out_.line(vector(), " ", o.name, "_", u, " = ", o.name, "_tile[k][", position, " + ",
                  16 * u, "u];");
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

namespace {

/// An operand in shared memory: lines of vectors of eight numbers.
struct UnitsOperand : MatmulOperand {
  std::uint32_t lines, vectors;  // of the tile

  ///   across, deep  size of a tile across the depth and along it
  UnitsOperand(const MatmulOperand& operand, std::uint32_t across, std::uint32_t deep)
      : MatmulOperand(operand),
        lines(deep_lines ? across : deep),
        vectors((deep_lines ? deep : across) / 8) {}

  // One extra vector, so that neighbouring lines are in different banks.
  std::uint32_t stride() const { return vectors + 1; }
  std::uint32_t size() const { return lines * stride(); }
};

UnitsOperand operand_a(const MatrixUnitsKernel& k) {
  return {MatmulOperand::a(k.a_transposed), k.rows, k.depth};
}
UnitsOperand operand_b(const MatrixUnitsKernel& k) {
  return {MatmulOperand::b(k.b_transposed), k.columns, k.depth};
}

class UnitsWriter {
 public:
  explicit UnitsWriter(const MatrixUnitsKernel& kernel)
      : kernel_(kernel), a_(operand_a(kernel)), b_(operand_b(kernel)) {}

  ComputeKernel write() {
    KernelParts parts{.name = kernel_.name(), .local_size = {kernel_.invocations(), 1, 1}};
    parts.arguments = {
        {"a", "uvec4", Access::read}, {"b", "uvec4", Access::read}, {"c", "float", Access::write}};
    parts.words = {"rows", "columns", "depth", "a_step", "a_batch", "b_step", "b_batch", "c_batch"};
    parts.extensions = {
        "GL_NV_cooperative_matrix", "GL_KHR_memory_scope_semantics", "GL_KHR_shader_subgroup_basic",
        "GL_EXT_shader_explicit_arithmetic_types_float16", "GL_EXT_control_flow_attributes"};
    declare();
    loader(a_);
    loader(b_);
    parts.functions = out_.text();
    out_ = Lines(1);
    begin();
    out_.open("for (uint k0 = 0u; k0 < depth; k0 += ", kernel_.depth, "u)");
    step();
    out_.close();
    store();
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  std::uint32_t shares(const UnitsOperand& o) const {
    return o.lines * o.vectors / kernel_.invocations();
  }

  void declare() {
    for (const UnitsOperand& o : {a_, b_})
      out_.line("shared uvec4 ", o.name, "_tile[", o.size(), "];");
    if (!kernel_.whole) out_.line("shared float block[", 256 * kernel_.subgroups(), "];");
    out_.line();
    out_.line("#define Sums fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>");
    // Right factors have another type, which is selected by a constant: codegen::to_khr_matrices().
    out_.line("layout(constant_id = 0) const uint kRows = 16u;");
    out_.line("#define LeftFactors fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>");
    out_.line("#define RightFactors fcoopmatNV<16, gl_ScopeSubgroup, kRows, 16>");
    out_.line();
  }

  /// Loads vector `e` of the tile at depth k0, zero beyond the operand.
  void loader(const UnitsOperand& o) {
    out_.open("uvec4 load_", o.name, "(uint first, uint origin, uint k0, uint e)");
    out_.line("uint line = e / ", o.vectors, "u, vector = e % ", o.vectors, "u;");
    if (o.deep_lines) {
      out_.line("uint at = origin + line, k = k0 + 8u * vector;");
      check(o);
      out_.line("return ", o.name, "(first + at * ", o.name, "_step + k / 8u);");
    } else {
      out_.line("uint at = origin + 8u * vector, k = k0 + line;");
      check(o);
      out_.line("return ", o.name, "(first + k * ", o.name, "_step + at / 8u);");
    }
    out_.close();
    out_.line();
  }

  void check(const UnitsOperand& o) {
    if (kernel_.whole) return;
    out_.line("if (at >= ", o.length, " || k >= depth) return uvec4(0u);");
  }

  std::uint32_t blocks_down() const { return kernel_.own_rows / 16; }
  std::uint32_t blocks_across() const { return kernel_.own_columns / 16; }

  void begin() {
    const std::uint32_t across = kernel_.columns / kernel_.own_columns;
    out_.line("uint self = gl_LocalInvocationID.x;");
    out_.line("uint own_row = gl_SubgroupID / ", across, "u * ", kernel_.own_rows, "u;");
    out_.line("uint own_column = gl_SubgroupID % ", across, "u * ", kernel_.own_columns, "u;");
    out_.line("uint column0 = gl_WorkGroupID.x * ", kernel_.columns, "u;");
    out_.line("uint row0 = gl_WorkGroupID.y * ", kernel_.rows, "u;");
    out_.line("uint a0 = gl_WorkGroupID.z * a_batch, b0 = gl_WorkGroupID.z * b_batch;");
    for (std::uint32_t i = 0; i < blocks_down(); ++i)
      for (std::uint32_t j = 0; j < blocks_across(); ++j)
        out_.line("Sums c", i, "_", j, " = Sums(0.0);");
    for (const UnitsOperand& o : {a_, b_}) {
      for (std::uint32_t u = 0; u < shares(o); ++u)
        out_.line("uvec4 ", next(o, u), " = uvec4(0u);");
    }
    fetch("0u");
  }

  /// The numbers of a tile that an invocation has read.
  static std::string next(const UnitsOperand& o, std::uint32_t u) {
    return text("next_", o.name, u);
  }

  void fetch(const std::string& k0) {
    // The branch keeps these reads before the products; otherwise drivers move them behind.
    if (kernel_.whole) out_.open("if (", k0, " < depth)");
    for (const UnitsOperand& o : {a_, b_}) {
      for (std::uint32_t u = 0; u < shares(o); ++u)
        out_.line(next(o, u), " = load_", o.name, "(", o.name, "0, ", o.origin, ", ", k0,
                  ", self + ", u * kernel_.invocations(), "u);");
    }
    if (kernel_.whole) out_.close();
  }

  void step() {
    out_.line("barrier();");
    for (const UnitsOperand& o : {a_, b_}) {
      for (std::uint32_t u = 0; u < shares(o); ++u) {
        const std::string e = text("(self + ", u * kernel_.invocations(), "u)");
        out_.line(o.name, "_tile[", e, " / ", o.vectors, "u * ", o.stride(), "u + ", e, " % ",
                  o.vectors, "u] = ", next(o, u), ";");
      }
    }
    out_.line("barrier();");
    fetch(text("k0 + ", kernel_.depth, "u"));
    for (std::uint32_t k = 0; k < kernel_.depth; k += 16) multiply(k);
  }

  /// Loads 16 by 16 numbers at `at` across the depth and `k` along it.
  void load(const UnitsOperand& o, std::string_view into, std::string_view own, std::uint32_t at,
            std::uint32_t k) {
    const std::string position =
        o.deep_lines ? text("(", own, " + ", at, "u) * ", o.stride(), "u + ", k / 8, "u")
                     : text(k * o.stride() + at / 8, "u + ", own, " / 8u");
    const bool columns = o.deep_lines == (o.name == "b");
    out_.line("coopMatLoadNV(", into, ", ", o.name, "_tile, ", position, ", ", o.stride(), "u, ",
              columns ? "true" : "false", ");");
  }

  void multiply(std::uint32_t k) {
    out_.line("{");
    for (std::uint32_t i = 0; i < blocks_down(); ++i) {
      out_.line("LeftFactors a", i, ";");
      load(a_, text("a", i), "own_row", 16 * i, k);
    }
    for (std::uint32_t j = 0; j < blocks_across(); ++j) {
      out_.line("RightFactors b", j, ";");
      load(b_, text("b", j), "own_column", 16 * j, k);
      for (std::uint32_t i = 0; i < blocks_down(); ++i)
        out_.line("c", i, "_", j, " = coopMatMulAddNV(a", i, ", b", j, ", c", i, "_", j, ");");
    }
    out_.line("}");
  }

  /// Stores complete blocks at once, and blocks at an edge number by number.
  void store() {
    out_.line("uint c0 = gl_WorkGroupID.z * c_batch;");
    if (!kernel_.whole)
      out_.open("if ((columns & 3u) == 0u && row0 + ", kernel_.rows, "u <= rows && column0 + ",
                kernel_.columns, "u <= columns)");
    each_block([&](const std::string& sums, const std::string& row, const std::string& column) {
      out_.line("coopMatStoreNV(", sums, ", c_elements, first_c + c0 + ", row, " * columns + ",
                column, ", columns, false);");
    });
    if (kernel_.whole) return;
    out_.line("return;");
    out_.close();
    out_.line("uint own_block = 256u * gl_SubgroupID;");
    each_block([&](const std::string& sums, const std::string& row, const std::string& column) {
      out_.line("coopMatStoreNV(", sums, ", block, own_block, 16u, false);");
      out_.line("subgroupBarrier();");
      out_.open("for (uint e = gl_SubgroupInvocationID; e < 256u; e += 32u)");
      out_.line("uint row = ", row, " + e / 16u, column = ", column, " + e % 16u;");
      out_.line("if (row < rows && column < columns) c(c0 + row * columns + column) = ",
                "block[own_block + e];");
      out_.close();
      out_.line("subgroupBarrier();");
    });
  }

  template <class F>
  void each_block(const F& f) {
    for (std::uint32_t i = 0; i < blocks_down(); ++i) {
      for (std::uint32_t j = 0; j < blocks_across(); ++j)
        f(text("c", i, "_", j), text("(row0 + own_row + ", 16 * i, "u)"),
          text("(column0 + own_column + ", 16 * j, "u)"));
    }
  }

  const MatrixUnitsKernel& kernel_;
  const UnitsOperand a_, b_;
  Lines out_;
};

}  // namespace

std::uint32_t MatrixUnitsKernel::shared_bytes() const {
  return 16 * (operand_a(*this).size() + operand_b(*this).size()) +
         (whole ? 0 : 1024 * subgroups());
}

std::string MatrixUnitsKernel::name() const {
  return text("matmul_units_f16", a_transposed ? "_t" : "_n", b_transposed ? "t_" : "n_", rows, "x",
              columns, "x", depth, "_", own_rows, "x", own_columns, whole ? "_whole" : "");
}

ComputeKernel matrix_units_kernel(const MatrixUnitsKernel& kernel) {
  return UnitsWriter(kernel).write();
}

}  // namespace topograd::ops::detail
