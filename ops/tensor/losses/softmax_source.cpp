// Internal: kernels of softmax and layer normalisation.
#include "softmax_source.hpp"

#include "../../../codegen/glsl/shader.hpp"
#include "../fused_source.hpp"

#include <bit>
#include <limits>

namespace topograd::ops::detail {
namespace {

using codegen::Lines;
using codegen::text;

class RowWriter {
 public:
  explicit RowWriter(const RowKernel& kernel) : kernel_(kernel) {}

  ComputeKernel write() {
    KernelParts parts;
    static constexpr std::string_view kNames[] = {"softmax", "log_softmax", "layer_norm",
                                                  "scaled_layer_norm"};
    parts.name = text(kNames[static_cast<std::size_t>(kernel_.op)],
                      kernel_.by_workgroup ? text("_rows_", kernel_.kept) : std::string("_short"));
    const std::string type(scalar());
    parts.arguments = {{"source", type, Access::read}};
    if (scaled()) {
      parts.arguments.push_back({"scale", type, Access::read});
      parts.arguments.push_back({"shift", type, Access::read});
    }
    parts.arguments.push_back({"target", type, Access::write});
    parts.words = {"rows", "depth"};
    if (norm()) {
      parts.words.push_back("epsilon_low");
      parts.words.push_back("epsilon_high");
    }
    body();
    Lines functions;
    functions.lines(shader_.functions());
    if (kernel_.by_workgroup) trees(functions);
    if (kernel_.by_workgroup && kernel_.subgroups > 0)
      parts.extensions = {"GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_arithmetic"};
    parts.functions = functions.text();
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  std::string_view scalar() const { return codegen::scalar_type(kernel_.precision); }
  bool norm() const { return kernel_.op == RowOp::layer_norm || scaled(); }
  bool scaled() const { return kernel_.op == RowOp::scaled_layer_norm; }
  std::string call(std::string_view function, std::string_view x) {
    return text(shader_.math_function(function, kernel_.precision), "(", x, ")");
  }
  std::string lowest() const {
    return codegen::literal(-std::numeric_limits<double>::infinity(), kernel_.precision);
  }

  /// Combines a number of all invocations of a workgroup, through shared memory.
  void tree(Lines& out, std::string_view name, std::string_view combine) const {
    out.open(scalar(), " ", name, "(", scalar(), " value)");
    out.line("uint self = gl_LocalInvocationID.x;");
    out.line("barrier();");
    out.line("partial[self] = value;");
    out.open("for (uint width = 128u; width > 0u; width >>= 1u)");
    out.line("barrier();");
    out.open("if (self < width)");
    out.line(scalar(), " other = partial[self + width];");
    out.line(combine);
    out.line("partial[self] = value;");
    out.close();
    out.close();
    out.line("barrier();");
    out.line("return partial[0];");
    out.close();
  }
  /// The same, by subgroups first. A row's two reductions have their own memory: one barrier
  /// suffices.
  void subgroup_tree(Lines& out, std::string_view name, std::string_view of_subgroup,
                     std::string_view combine) const {
    out.line("shared ", scalar(), " ", name, "_parts[", kernel_.subgroups, "];");
    out.open(scalar(), " ", name, "(", scalar(), " value)");
    out.line("value = ", of_subgroup, "(value);");
    out.line("if (subgroupElect()) ", name, "_parts[gl_SubgroupID] = value;");
    out.line("barrier();");
    out.line("value = ", name, "_parts[0];");
    out.open("for (uint s = 1u; s < ", kernel_.subgroups, "u; ++s)");
    out.line(scalar(), " other = ", name, "_parts[s];");
    out.line(combine);
    out.close();
    out.line("return value;");
    out.close();
  }
  void trees(Lines& out) const {
    const std::string_view sum = "value += other;", most = "if (other > value) value = other;";
    if (kernel_.subgroups == 0) {
      out.line("shared ", scalar(), " partial[256];");
      tree(out, "first_sum", sum);
      if (!norm()) tree(out, "all_max", most);
      return;
    }
    subgroup_tree(out, "first_sum", "subgroupAdd", sum);
    if (norm()) subgroup_tree(out, "second_sum", "subgroupAdd", sum);
    if (!norm()) subgroup_tree(out, "all_max", "subgroupMax", most);
  }

  std::string all(std::string_view function, std::string_view value) const {
    return kernel_.by_workgroup ? text(function, "(", value, ")") : std::string(value);
  }

  /// Runs `statements` for each element i of the row with number x. Kept numbers are separate
  /// variables, because an array would be in memory.
  void each(std::initializer_list<std::string> statements) {
    if (kernel_.kept == 0) {
      out_.open(kernel_.by_workgroup ? "for (uint i = self; i < depth; i += 256u)"
                                     : "for (uint i = 0u; i < depth; ++i)");
      out_.line(scalar(), " x = source(base + i);");
      for (const std::string& statement : statements) out_.line(statement);
      out_.close();
      return;
    }
    for (std::uint32_t k = 0; k < kernel_.kept; ++k) {
      if (kernel_.whole) {
        out_.line("{");
      } else {
        out_.open("if (self + ", 256 * k, "u < depth)");
      }
      out_.line("uint i = self + ", 256 * k, "u;");
      out_.line(scalar(), " x = kept_", k, ";");
      for (const std::string& statement : statements)
        out_.line(codegen::substitute(statement, {{"k", std::to_string(k)}}));
      kernel_.whole ? out_.line("}") : out_.close();
    }
  }

  void body() {
    const std::string zero = codegen::literal(0, kernel_.precision);
    if (norm())
      out_.line(scalar(), " epsilon = ",
                number_source("epsilon", kernel_.precision == codegen::Precision::f64), ";");
    if (kernel_.by_workgroup) {
      out_.line("uint self = gl_LocalInvocationID.x;");
      out_.open("for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x)");
    } else {
      out_.line("uint stride = gl_NumWorkGroups.x * 256u;");
      out_.open("for (uint row = gl_GlobalInvocationID.x; row < rows; row += stride)");
    }
    out_.line("uint base = row * depth;");
    for (std::uint32_t k = 0; k < kernel_.kept; ++k) {
      const std::string read = text("source(base + self + ", 256 * k, "u)");
      out_.line(scalar(), " kept_", k, " = ",
                kernel_.whole ? read : text("self + ", 256 * k, "u < depth ? ", read, " : ", zero),
                ";");
    }
    norm() ? layer_norm(zero) : softmax(zero);
    out_.close();
  }

  void softmax(const std::string& zero) {
    out_.line(scalar(), " best = ", lowest(), ";");
    each({"if (x > best) best = x;"});  // NaN appears in the sum
    out_.line("best = ", all("all_max", "best"), ";");
    out_.line(scalar(), " total = ", zero, ";");
    const bool keep = kernel_.kept > 0 && kernel_.op == RowOp::softmax;
    const bool narrow = kernel_.precision == codegen::Precision::f32;
    const std::string power = call(narrow ? "exp_decay" : "exp", "x - best");
    each({text(scalar(), " power = ", power, ";"), "total += power;",
          keep ? "kept_{k} = power;" : ""});
    out_.line("total = ", all("first_sum", "total"), ";");
    if (kernel_.op == RowOp::softmax) {
      out_.line(scalar(), " share = ", scalar(), "(1.0) / total;");
      each({text("target(base + i) = ", keep ? "x" : power, " * share;")});
    } else {
      out_.line(scalar(), " rest = ", call("log", "total"), ";");
      each({"target(base + i) = (x - best) - rest;"});
    }
  }

  void layer_norm(const std::string& zero) {
    out_.line(scalar(), " total = ", zero, ";");
    each({"total += x;"});
    out_.line(scalar(), " mean = ", all("first_sum", "total"), " / ", scalar(), "(depth);");
    out_.line(scalar(), " squares = ", zero, ";");
    each({"squares += (x - mean) * (x - mean);"});
    out_.line(scalar(),
              " spread = ", all(kernel_.subgroups > 0 ? "second_sum" : "first_sum", "squares"),
              " / ", scalar(), "(depth);");
    out_.line(scalar(), " factor = ", scalar(), "(1.0) / sqrt(spread + epsilon);");
    each({scaled() ? "target(base + i) = (x - mean) * factor * scale(i) + shift(i);"
                   : "target(base + i) = (x - mean) * factor;"});
  }

  const RowKernel& kernel_;
  codegen::Shader shader_;
  Lines out_{1};
};

}  // namespace

std::string RowKernel::key() const {
  return text("rows ", unsigned(op), " ", unsigned(precision), " ", unsigned(by_workgroup), " ",
              subgroups, " ", kept, whole ? " whole" : "");
}

RowKernel rows_for(const LaunchLimits& limits, RowOp op, codegen::Precision precision,
                   std::uint64_t depth) {
  RowKernel kernel{.op = op, .precision = precision, .by_workgroup = depth > 32};
  if (limits.subgroup_arithmetic && limits.subgroup_size >= 4)
    kernel.subgroups = 256 / limits.subgroup_size;
  if (kernel.by_workgroup && depth <= 256 * 16)
    kernel.kept = std::bit_ceil(static_cast<std::uint32_t>((depth + 255) / 256));
  kernel.whole = kernel.kept > 0 && depth == 256 * kernel.kept;
  return kernel;
}

ComputeKernel row_kernel(const RowKernel& kernel) { return RowWriter(kernel).write(); }

}  // namespace topograd::ops::detail
