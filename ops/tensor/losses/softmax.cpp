// Softmax and layer normalisation of rows.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "../../../codegen/glsl/shader.hpp"
#include "../../../codegen/glsl/text.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/backend.hpp"
#include "../../backend/compute_kernel.hpp"
#include "../../backend/kernel_store.hpp"
#include "../fused_source.hpp"
#include "../operations.hpp"
#include "../state.hpp"

namespace topograd::ops::detail {

enum class RowOp : std::uint8_t { softmax, log_softmax, layer_norm, scaled_layer_norm };

/// A row is processed by one invocation, or by a workgroup that keeps `kept` numbers of it in each
/// invocation's registers (0: reads it again).
struct RowKernel {
  RowOp op = RowOp::softmax;
  codegen::Precision precision = codegen::Precision::f32;
  bool by_workgroup = true;
  std::uint32_t subgroups = 0;  ///< per workgroup, for reductions; 0: only shared memory
  std::uint32_t kept = 0;
  bool whole = false;  ///< rows have 256 * kept numbers

  std::string key() const;
};

/// The kernel for rows of length `depth`.
RowKernel rows_for(const LaunchLimits& limits, RowOp op, codegen::Precision precision,
                   std::uint64_t depth);

/// Arguments source, target (scaled: source, scale, shift, target); words rows, depth and (layer
/// norms) epsilon (two words). Local size 256.
ComputeKernel row_kernel(const RowKernel& kernel);

}  // namespace topograd::ops::detail

namespace topograd::ops {
namespace {

using detail::RowKernel;
using detail::RowOp;
using detail::View;

struct Rows {
  RowOp op;
  Type type;
  std::uint64_t rows, depth;
  View source, scale, shift, target;
  double epsilon;
};

template <class T>
void softmax_row(const T* from, T* to, std::size_t n, bool logarithm) {
  double best = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::size_t k = 0; k < n; ++k)
    if (std::isnan(from[k]) || from[k] > best) best = static_cast<double>(from[k]);
  for (std::size_t k = 0; k < n; ++k) total += std::exp(static_cast<double>(from[k]) - best);
  const double rest = std::log(total);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = static_cast<double>(from[k]) - best;
    to[k] = static_cast<T>(logarithm ? x - rest : std::exp(x) / total);
  }
}

template <class T>
void norm_row(const T* from, const T* scale, const T* shift, T* to, std::size_t n, double epsilon) {
  double total = 0, squares = 0;
  for (std::size_t k = 0; k < n; ++k) total += static_cast<double>(from[k]);
  const double mean = total / static_cast<double>(n);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = static_cast<double>(from[k]) - mean;
    squares += x * x;
  }
  const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (std::size_t k = 0; k < n; ++k) {
    const double x = (static_cast<double>(from[k]) - mean) * factor;
    to[k] = static_cast<T>(
        scale == nullptr ? x : x * static_cast<double>(scale[k]) + static_cast<double>(shift[k]));
  }
}

template <class T>
void run_on_cpu(const Rows& r) {
  const T* from = detail::host_read<T>(r.source);
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  const T* scale = scaled ? detail::host_read<T>(r.scale) : nullptr;
  const T* shift = scaled ? detail::host_read<T>(r.shift) : nullptr;
  T* to = detail::host_write<T>(r.target);
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 16384 / r.depth);
  pool.for_ranges(r.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t at = row * r.depth;
      if (r.op == RowOp::softmax || r.op == RowOp::log_softmax) {
        softmax_row(from + at, to + at, r.depth, r.op == RowOp::log_softmax);
      } else {
        norm_row(from + at, scale, shift, to + at, r.depth, r.epsilon);
      }
    }
  });
}

void run_on_device(OpBackend& backend, const Rows& r) {
  const bool wide = r.type == Type::f64;
  const RowKernel kernel = detail::rows_for(
      backend.limits(), r.op, wide ? codegen::Precision::f64 : codegen::Precision::f32, r.depth);
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  std::vector<Argument> arguments = {
      detail::argument(backend, r.source, r.rows * r.depth, r.type, Access::read)};
  if (scaled) {
    arguments.push_back(detail::argument(backend, r.scale, r.depth, r.type, Access::read));
    arguments.push_back(detail::argument(backend, r.shift, r.depth, r.type, Access::read));
  }
  arguments.push_back(detail::argument(backend, r.target, r.rows * r.depth, r.type, Access::write));
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(r.rows),
                                      static_cast<std::uint32_t>(r.depth)};
  if (scaled || r.op == RowOp::layer_norm)
    for (const std::uint32_t word : number_words(r.epsilon, wide)) words.push_back(word);
  const std::uint64_t groups = kernel.by_workgroup ? r.rows : (r.rows + 255) / 256;
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t rounds = (groups + most - 1) / most;
  if (rounds * (3 * (r.depth / 256 + 1) + 20 + 2 * kernel.subgroups) >
      backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "softmax: expected shorter rows for the loops of this device, got " +
                    std::to_string(r.depth));
  }
  const ComputeKernel& text = kernel_for(kernel.key(), [&] { return detail::row_kernel(kernel); });
  backend.launch({.kernel = &text,
                  .arguments = arguments,
                  .words = words,
                  .groups = {static_cast<std::uint32_t>(std::min(groups, most))}});
}

/// Three passes over each row: two combine its numbers, one writes.
Work softmax_work(const Rows& r) {
  const std::uint64_t count = r.rows * r.depth, number = size_of(r.type);
  // Softmax: maximum, difference, exponential, sum; difference or quotient of the result. Norm:
  // sum, difference, square, sum; difference and product of the result, and its scale and shift.
  const bool scaled = r.op == RowOp::scaled_layer_norm;
  const bool softmax = r.op == RowOp::softmax || r.op == RowOp::log_softmax;
  const std::uint64_t operations = softmax ? (r.op == RowOp::softmax ? 7 : 6) : (scaled ? 8 : 6);
  const std::uint64_t own = (scaled ? 2 * r.depth : 0) * number;
  return {.operations = operations * count,
          .bytes_read = count * number + own,
          .bytes_written = count * number,
          .reads = static_cast<double>((3 * count + (scaled ? 2 * count : 0)) * number),
          .steps = 1 + 2 * runtime::hybrid::tree_steps(static_cast<double>(r.depth)),
          .pattern = runtime::hybrid::MemoryPattern::reduction};
}

/// Runs one kernel over the rows of the last axis.
Tensor run_rows(const char* call_name, RowOp op, const Tensor& a, const Tensor& scale,
                const Tensor& shift, double epsilon) {
  detail::state_of(call_name, a);
  if (!(epsilon >= 0) || std::isinf(epsilon)) {
    throw Error(ErrorCode::InvalidArgument, std::string(call_name) +
                                                ": expected a finite epsilon >= 0, got " +
                                                ir::print_number(epsilon));
  }
  if (a.rank() == 0) checked_axis(call_name, a.shape(), -1);
  const Tensor wide = a.type() == Type::f16 ? a.to(Type::f32) : a;
  Tensor out = detail::make_tensor(a.shape(), wide.type(), a.placed());
  const auto depth = static_cast<std::uint64_t>(a.size(-1));
  if (a.count() == 0) return out;
  Rows r{op,
         wide.type(),
         static_cast<std::uint64_t>(a.count()) / depth,
         depth,
         detail::contiguous_data(wide),
         {},
         {},
         out.state()->data,
         epsilon};
  std::vector<std::shared_ptr<Storage>> inputs = {r.source.storage};
  if (op == RowOp::scaled_layer_norm) {
    r.scale = detail::contiguous_data(scale);
    r.shift = detail::contiguous_data(shift);
    inputs.push_back(r.scale.storage);
    inputs.push_back(r.shift.storage);
  }
  const bool softmax = op == RowOp::softmax || op == RowOp::log_softmax;
  detail::run_op(
      {.op = softmax ? Operation::Softmax : Operation::LayerNorm,
       .kernel = key_of("rows", op, r.type),
       .size = static_cast<std::uint64_t>(a.count()),
       .work = softmax_work(r),
       .inputs = std::move(inputs),
       .outputs = {r.target.storage},
       .on_cpu = [&] { r.type == Type::f64 ? run_on_cpu<double>(r) : run_on_cpu<float>(r); },
       .on_device = [&](OpBackend& backend) { run_on_device(backend, r); },
       .needs_float64 = r.type == Type::f64},
      a.placed());
  return out;
}

Tensor along_last(const char* call, const Tensor& a, std::int64_t axis, RowOp op) {
  detail::state_of(call, a);
  const auto at = static_cast<std::int64_t>(checked_axis(call, a.shape(), axis));
  const auto last = static_cast<std::int64_t>(a.rank()) - 1;
  if (at != last) return along_last(call, a.transpose(at, last), -1, op).transpose(at, last);
  Tensor out = run_rows(call, op, a, {}, {}, 0);
  if (!detail::wants_grad({&a, 1})) return out;
  const Tensor y = out.detach();
  detail::record(out, {&a, 1}, [y, op](const Tensor& g) {
    if (op == RowOp::softmax) return std::vector{y * (g - sum(g * y, {-1}, true))};
    return std::vector{g - exp(y) * sum(g, {-1}, true)};
  });
  return out;
}

}  // namespace

Tensor softmax(const Tensor& a, std::int64_t axis) {
  return along_last("softmax", a, axis, RowOp::softmax);
}

Tensor log_softmax(const Tensor& a, std::int64_t axis) {
  return along_last("log_softmax", a, axis, RowOp::log_softmax);
}

namespace {

/// Derivative of the normalised rows by the rows.
Tensor pull_norm(const Tensor& x, const Tensor& g, double epsilon) {
  const Tensor centred = (x - mean(x, {-1}, true)).evaluate();
  const Tensor factor = rsqrt(mean(square(centred), {-1}, true) + epsilon).evaluate();
  const Tensor normal = centred * factor;
  return factor * (g - mean(g, {-1}, true) - normal * mean(g * normal, {-1}, true));
}

}  // namespace

Tensor layer_norm(const Tensor& a, double epsilon) {
  Tensor out = run_rows("layer_norm", RowOp::layer_norm, a, {}, {}, epsilon);
  if (!detail::wants_grad({&a, 1})) return out;
  detail::record(out, {&a, 1}, [x = a.detach(), epsilon](const Tensor& g) {
    return std::vector{pull_norm(x, g, epsilon)};
  });
  return out;
}

Tensor layer_norm(const Tensor& a, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Tensor all[] = {a, scale, shift};
  detail::common_type("layer_norm", all);
  detail::common_device("layer_norm", all);
  const Shape row = a.rank() > 0 ? Shape{a.size(-1)} : Shape{};
  if (scale.shape() != row || shift.shape() != row) {
    throw Error(ErrorCode::Shape, "layer_norm: expected scale and shift of " + to_text(row) +
                                      ", got " + to_text(scale.shape()) + " and " +
                                      to_text(shift.shape()));
  }
  Tensor out = run_rows("layer_norm", RowOp::scaled_layer_norm, a, scale, shift, epsilon);
  if (!detail::wants_grad(all)) return out;
  detail::record(out, all, [x = a.detach(), s = scale.detach(), epsilon](const Tensor& g) {
    const Tensor normal = layer_norm(x, epsilon);
    return std::vector{pull_norm(x, g * s, epsilon), detail::sum_to(g * normal, s.shape()),
                       detail::sum_to(g, s.shape())};
  });
  return out;
}

}  // namespace topograd::ops

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
