// Tiles of both operands in shared memory, cooperative matrices of 16 by 16 in subgroups.
#include "matmul_units.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "matmul_source.hpp"

#include <string_view>

namespace topograd::ops::detail {
namespace {

using codegen::Lines;
using codegen::text;

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
    const std::string place =
        o.deep_lines ? text("(", own, " + ", at, "u) * ", o.stride(), "u + ", k / 8, "u")
                     : text(k * o.stride() + at / 8, "u + ", own, " / 8u");
    const bool columns = o.deep_lines == (o.name == "b");
    out_.line("coopMatLoadNV(", into, ", ", o.name, "_tile, ", place, ", ", o.stride(), "u, ",
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
