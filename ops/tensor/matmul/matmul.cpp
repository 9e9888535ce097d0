// Products of matrices: Eigen on the CPU; tiles of shared memory and registers on devices.
#include "matmul.hpp"

#include "../../../codegen/glsl/text.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../operations.hpp"
#include "../state.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

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

namespace topograd::ops {
namespace {

using detail::MatmulKernel;
using detail::MatmulStorage;
using detail::MatrixUnitsKernel;
using detail::state_of;
using detail::View;

/// An operand in memory: lines of consecutive elements, `step` apart.
struct ProductOperand {
  View view;
  Type type = Type::f32;
  bool transposed = false;  ///< lines are columns
  std::int64_t step = 0;
  std::int64_t batch = 0;  ///< elements between matrices

  std::uint64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t batches) const {
    const std::int64_t lines = transposed ? columns : rows, length = transposed ? rows : columns;
    return static_cast<std::uint64_t>((batches - 1) * batch + (lines - 1) * step + length);
  }
};

struct Product {
  std::int64_t batches = 1, rows = 0, columns = 0, depth = 0;
  ProductOperand a, b;
  View c;
  Type type = Type::f32;  ///< type of C
};

[[noreturn]] void refuse(const char* expected, const Tensor& a, const Tensor& b) {
  throw Error(ErrorCode::Shape, std::string("matmul: expected ") + expected + ", got " +
                                    to_text(a.shape()) + " and " + to_text(b.shape()));
}

bool begins_within_word(const ProductOperand& operand) {
  return operand.type == Type::f16 && operand.view.offset % 2 != 0;
}

/// Finds the layout of a matrix with contiguous lines; returns false if it has none.
bool find_lines(const Shape& shape, ProductOperand& operand) {
  const Strides& strides = operand.view.strides;
  const std::size_t n = shape.size();
  const std::int64_t rows = shape[n - 2], columns = shape[n - 1];
  const std::int64_t row_step = strides[n - 2], column_step = strides[n - 1];
  if (begins_within_word(operand)) return false;
  if ((column_step == 1 || columns == 1) && (row_step >= columns || rows == 1)) {
    operand.transposed = false;
    operand.step = rows == 1 ? columns : row_step;
    return true;
  }
  if ((row_step == 1 || rows == 1) && (column_step >= rows || columns == 1)) {
    operand.transposed = true;
    operand.step = columns == 1 ? rows : column_step;
    return true;
  }
  return false;
}

/// An operand with uniformly spaced batches; copied if they are not.
ProductOperand operand_of(const Tensor& tensor, const Shape& batch) {
  Shape full = batch;
  full.insert(full.end(), tensor.shape().end() - 2, tensor.shape().end());
  ProductOperand out{detail::data_of(tensor), tensor.type()};
  out.view.strides = broadcast_strides("matmul", tensor.shape(), out.view.strides, full);
  const Strides outer(out.view.strides.begin(), out.view.strides.end() - 2);
  const LoopNest nest = loop_nest(batch, {&outer, 1});
  if (nest.shape.size() > 1 || !find_lines(full, out)) {
    Tensor repeated = tensor.detach().broadcast_to(full);
    out.view = detail::contiguous_data(repeated);
    // The layout is suitable except for the half of a word in which it begins.
    if (begins_within_word(out)) {
      repeated = repeated.to(Type::f32).to(Type::f16);
      out.view = detail::contiguous_data(repeated);
    }
    out.view.strides = contiguous_strides(full);
    find_lines(full, out);
    out.batch = full[full.size() - 2] * full[full.size() - 1];
    return out;
  }
  out.batch = nest.shape.empty() ? 0 : nest.strides[0][0];
  return out;
}

template <class T>
using Lines = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                         Eigen::OuterStride<>>;

template <class T>
void multiply_rows(const Product& p, const T* a, const T* b, T* c, std::int64_t begin,
                   std::int64_t end) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix> out(c + begin * p.columns, end - begin, p.columns);
  const Lines<T> right(b, p.b.transposed ? p.columns : p.depth,
                       p.b.transposed ? p.depth : p.columns, Eigen::OuterStride<>(p.b.step));
  const auto with_left = [&](const auto& left) {
    if (p.b.transposed) {
      out.noalias() = left * right.transpose();
    } else {
      out.noalias() = left * right;
    }
  };
  if (p.a.transposed) {
    const Lines<T> left(a + begin, p.depth, end - begin, Eigen::OuterStride<>(p.a.step));
    with_left(left.transpose());
  } else {
    const Lines<T> left(a + begin * p.a.step, end - begin, p.depth, Eigen::OuterStride<>(p.a.step));
    with_left(left);
  }
}

template <class T>
void multiply_on_cpu(const Product& p) {
  const T* a = detail::host_read<T>(p.a.view);
  const T* b = detail::host_read<T>(p.b.view);
  T* c = detail::host_write<T>(p.c);
  // Blocks of rows, large enough for a task; the same ones on every machine.
  const auto work = static_cast<double>(p.columns) * static_cast<double>(p.depth);
  const auto least = static_cast<std::int64_t>(std::ceil(100'000 / std::max(work, 1.0)));
  const std::int64_t block = std::min(p.rows, std::max<std::int64_t>(64, least));
  const std::int64_t blocks = (p.rows + block - 1) / block;
  runtime::cpu::Pool pool(0);
  pool.for_ranges(static_cast<std::size_t>(p.batches * blocks), 1, [&](std::size_t k, std::size_t) {
    const auto batch = static_cast<std::int64_t>(k) / blocks;
    const std::int64_t begin = static_cast<std::int64_t>(k) % blocks * block;
    multiply_rows<T>(p, a + batch * p.a.batch, b + batch * p.b.batch,
                     c + batch * p.rows * p.columns, begin, std::min(p.rows, begin + block));
  });
}

thread_local detail::MatmulTiles forced_tiles = detail::MatmulTiles::chosen;

/// True if tiles would be mostly empty: few rows or columns, and few terms, whose lines stay in a
/// cache. On software devices, neither tiles with empty parts nor adjacent reads of neighbours are
/// an advantage.
bool is_thin(const Product& p, const LaunchLimits& limits) {
  if (forced_tiles != detail::MatmulTiles::chosen) return false;
  const std::int64_t thin = std::min(p.rows, p.columns);
  return limits.occupied_by_few ? thin <= 8 : thin <= 4 && p.depth <= 16;
}

/// Workgroups of a thin product, and their loop iterations.
struct ThinLoop {
  std::uint64_t groups, turns;
};

ThinLoop thin_loop(const Product& p, const LaunchLimits& limits) {
  const auto count = static_cast<std::uint64_t>(p.rows * p.columns);
  const std::uint64_t all = (count + MatmulKernel::kThinGroup - 1) / MatmulKernel::kThinGroup;
  const std::uint64_t groups = std::min<std::uint64_t>(all, std::min(limits.groups, 1u << 16));
  return {groups, (all + groups - 1) / groups * (static_cast<std::uint64_t>(p.depth) + 2)};
}

MatmulKernel tiles_for(const Product& p, const LaunchLimits& limits) {
  MatmulKernel kernel{.a_transposed = p.a.transposed, .b_transposed = p.b.transposed};
  if (p.type == Type::f64) kernel.storage = MatmulStorage::f64;
  if (p.a.type == Type::f16) kernel.storage = MatmulStorage::f16;
  if (is_thin(p, limits) && thin_loop(p, limits).turns <= limits.loop_iterations) {
    kernel.thin = true;
    return kernel;
  }
  // Large tiles if there are enough of them to occupy a device.
  const std::int64_t tiles = ((p.rows + 127) / 128) * ((p.columns + 127) / 128) * p.batches;
  MatmulKernel large = kernel;
  large.quarters = 2;
  bool wanted = tiles >= 128 && !limits.occupied_by_few;
  if (forced_tiles != detail::MatmulTiles::chosen)
    wanted = forced_tiles == detail::MatmulTiles::large;
  const bool fits =
      kernel.storage != MatmulStorage::f64 && large.shared_bytes() <= limits.shared_bytes;
  return wanted && fits ? large : kernel;
}

/// True if an operand can be read in vectors of eight numbers: its lines begin at multiples of
/// eight and, if they do not follow the depth, have such lengths.
bool in_eights(const ProductOperand& o, bool deep_lines, std::int64_t length,
               std::int64_t batches) {
  return o.view.offset % 8 == 0 && o.step % 8 == 0 && (batches == 1 || o.batch % 8 == 0) &&
         (deep_lines || length % 8 == 0);
}

/// The kernel with cooperative matrices, for large f16 products with suitable layouts.
std::optional<MatrixUnitsKernel> units_for(const Product& p, const LaunchLimits& limits) {
  MatrixUnitsKernel kernel{.a_transposed = p.a.transposed, .b_transposed = p.b.transposed};
  const bool there = limits.cooperative_matrix &&
                     limits.subgroup_size == MatrixUnitsKernel::kSubgroup &&
                     kernel.shared_bytes() <= limits.shared_bytes;
  if (!there || p.a.type != Type::f16 || p.depth % 8 != 0 || p.rows < 64 || p.columns < 64 ||
      !in_eights(p.a, !p.a.transposed, p.rows, p.batches) ||
      !in_eights(p.b, p.b.transposed, p.columns, p.batches))
    return std::nullopt;
  kernel.whole =
      p.rows % kernel.rows == 0 && p.columns % kernel.columns == 0 && p.depth % kernel.depth == 0;
  return kernel;
}

/// Parameters of a launch of either kernel.
struct Plan {
  const ComputeKernel* text = nullptr;
  std::int64_t rows = 0, columns = 0;  ///< part of C per workgroup
  std::int64_t vector = 1;             ///< numbers per element of A and B
  std::uint64_t groups = 0;            ///< in x, unless divided by tiles
};

Plan plan_for(const Product& p, const LaunchLimits& limits, const std::string& device) {
  if (const std::optional<MatrixUnitsKernel> units = units_for(p, limits)) {
    return {.text = &kernel_for(units->name(), [&] { return detail::matrix_units_kernel(*units); }),
            .rows = units->rows,
            .columns = units->columns,
            .vector = 8};
  }
  const MatmulKernel kernel = tiles_for(p, limits);
  const auto text = [&] {
    return &kernel_for(kernel.name(), [&] { return detail::matmul_kernel(kernel); });
  };
  if (kernel.thin && limits.local_size >= MatmulKernel::kThinGroup)
    return {.text = text(), .groups = thin_loop(p, limits).groups};
  if (static_cast<std::uint64_t>(p.depth) + 64 > limits.loop_iterations ||
      kernel.shared_bytes() > limits.shared_bytes || limits.local_size < 256) {
    throw Error(ErrorCode::Unsupported,
                "matmul: expected a smaller depth or larger workgroups on " + device +
                    ", got a depth of " + std::to_string(p.depth));
  }
  return {.text = text(), .rows = kernel.tile(), .columns = kernel.tile()};
}

Argument operand_argument(OpBackend& backend, const ProductOperand& o, const View& view,
                          std::uint64_t extent, std::int64_t vector) {
  Argument out = detail::argument(backend, view, extent, o.type, Access::read);
  if (vector > 1) out.element = 16;
  return out;
}

thread_local std::int64_t forced_groups = 0;

/// The maximum number of workgroups along an axis, rounded to an even number, so that matrices and
/// bands of f16 begin and end at words.
std::int64_t most_groups(const OpBackend& backend) {
  return (forced_groups > 0 ? forced_groups : backend.limits().groups) / 2 * 2;
}

/// Launches all rows at once.
///
///   keep  C has been written in part
void launch(OpBackend& backend, const Plan& plan, const Product& p, bool keep) {
  const std::int64_t most = most_groups(backend);
  for (std::int64_t first = 0; first < p.batches; first += most) {
    const std::int64_t batches = std::min(most, p.batches - first);
    View a = p.a.view, b = p.b.view, c = p.c;
    a.offset += first * p.a.batch;
    b.offset += first * p.b.batch;
    c.offset += first * p.rows * p.columns;
    const Argument arguments[] = {
        operand_argument(backend, p.a, a, p.a.extent(p.rows, p.depth, batches), plan.vector),
        operand_argument(backend, p.b, b, p.b.extent(p.depth, p.columns, batches), plan.vector),
        detail::argument(backend, c, static_cast<std::uint64_t>(batches * p.rows * p.columns),
                         p.type, Access::write, keep || first > 0)};
    const auto vectors = [&](std::int64_t value) { return word(value / plan.vector); };
    const std::uint32_t words[] = {word(p.rows),       word(p.columns),         word(p.depth),
                                   vectors(p.a.step),  vectors(p.a.batch),      vectors(p.b.step),
                                   vectors(p.b.batch), word(p.rows * p.columns)};
    const auto tiles = [&](std::int64_t size, std::int64_t tile) {
      return word((size + tile - 1) / tile);
    };
    const LaunchGroups groups =
        plan.groups > 0
            ? LaunchGroups{static_cast<std::uint32_t>(plan.groups), 1, word(batches)}
            : LaunchGroups{tiles(p.columns, plan.columns), tiles(p.rows, plan.rows), word(batches)};
    backend.launch({.kernel = plan.text, .arguments = arguments, .words = words, .groups = groups});
  }
}

void multiply_on_device(OpBackend& backend, const Product& p) {
  const Plan plan = plan_for(p, backend.limits(), backend.facts().name);
  const std::int64_t most = most_groups(backend) * plan.rows;
  if (plan.groups > 0 || p.rows <= most) return launch(backend, plan, p, false);
  Product band = p;
  band.batches = 1;
  for (std::int64_t batch = 0; batch < p.batches; ++batch) {
    for (std::int64_t row = 0; row < p.rows; row += most) {
      band.rows = std::min(most, p.rows - row);
      band.a.view.offset =
          p.a.view.offset + batch * p.a.batch + row * (p.a.transposed ? 1 : p.a.step);
      band.b.view.offset = p.b.view.offset + batch * p.b.batch;
      band.c.offset = p.c.offset + (batch * p.rows + row) * p.columns;
      launch(backend, plan, band, batch + row > 0);
    }
  }
}

double products_of(const Product& p) {
  return static_cast<double>(p.batches) * static_cast<double>(p.rows) *
         static_cast<double>(p.columns) * static_cast<double>(p.depth);
}

Work product_work(const Product& p) {
  const auto bytes = [&](const ProductOperand& operand, std::int64_t rows, std::int64_t columns) {
    const std::int64_t matrices = operand.batch == 0 ? 1 : p.batches;
    return static_cast<double>(matrices * rows * columns) *
           static_cast<double>(size_of(operand.type));
  };
  const double result = static_cast<double>(p.batches * p.rows * p.columns);
  return {.operations = 2 * products_of(p),
          .bytes_read = bytes(p.a, p.rows, p.depth) + bytes(p.b, p.depth, p.columns),
          .bytes_written = result * static_cast<double>(size_of(p.type)),
          .reads = products_of(p) * static_cast<double>(size_of(p.a.type) + size_of(p.b.type)),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(p.depth))};
}

void run_product(const Product& p, const std::optional<Device>& device) {
  const bool thin = std::min(p.rows, p.columns) <= 8;
  detail::run_op(
      {.op = Operation::Matmul,
       .kernel = key_of("matmul", p.a.type, thin, p.a.transposed, p.b.transposed),
       .size = static_cast<std::uint64_t>(std::cbrt(products_of(p))),
       .work = product_work(p),
       .inputs = {p.a.view.storage, p.b.view.storage},
       .outputs = {p.c.storage},
       .on_cpu =
           [&] { p.type == Type::f64 ? multiply_on_cpu<double>(p) : multiply_on_cpu<float>(p); },
       .on_device = [&](OpBackend& backend) { multiply_on_device(backend, p); },
       .needs_float64 = p.type == Type::f64},
      device);
}

/// The axes before the last two.
Shape broadcast_batches(const Tensor& a, const Tensor& b) {
  const auto batch = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  const Shape first = batch(a.shape()), second = batch(b.shape());
  for (std::size_t k = 1; k <= std::min(first.size(), second.size()); ++k) {
    const std::int64_t m = first[first.size() - k], n = second[second.size() - k];
    if (m != n && m != 1 && n != 1) refuse("axes before the last two that broadcast", a, b);
  }
  return broadcast("matmul", first, second);
}

}  // namespace

void detail::force_matmul_tiles(MatmulTiles tiles, std::int64_t most_groups) {
  forced_tiles = tiles;
  forced_groups = most_groups;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  const Type type = detail::common_type("matmul", both);
  const auto device = detail::common_device("matmul", both);
  if (a.rank() < 2 || b.rank() < 2) refuse("two axes at least", a, b);
  if (a.size(-1) != b.size(-2)) refuse("lhs columns == rhs rows", a, b);
  // The CPU multiplies operands in place; on devices one kernel reads both operands in one type.
  const auto runs = detail::runs_on(device);
  const bool on_cpu = !runs || runs->is_cpu();
  if (a.type() != b.type() || (on_cpu && a.type() == Type::f16))
    return matmul(a.to(type), b.to(type));

  const Shape batch = broadcast_batches(a, b);
  Product p{.batches = element_count(batch),
            .rows = a.size(-2),
            .columns = b.size(-1),
            .depth = a.size(-1),
            .type = type};
  Shape shape = batch;
  shape.insert(shape.end(), {p.rows, p.columns});
  check_shape("matmul", shape);
  Tensor out;
  if (p.depth == 0) {
    out = full(shape, 0, type);
  } else {
    out = detail::make_tensor(shape, type, device);
    if (out.count() > 0) {
      p.a = operand_of(a, batch);
      p.b = operand_of(b, batch);
      p.c = out.state()->data;
      if (p.b.batch == 0 && !p.a.transposed && p.a.batch == p.rows * p.a.step) {
        p.rows *= p.batches;  // one tall product
        p.batches = 1;
      }
      run_product(p, device);
    }
  }
  detail::record(out, both,
                 [a = a.detach(), b = b.detach(), has_a = a.has_grad(),
                  has_b = b.has_grad()](const Tensor& g) {
                   std::vector<Tensor> grads(2);
                   if (has_a) grads[0] = detail::sum_to(matmul(g, b.transpose()), a.shape());
                   if (has_b) grads[1] = detail::sum_to(matmul(a.transpose(), g), b.shape());
                   return grads;
                 });
  return out;
}

}  // namespace topograd::ops
