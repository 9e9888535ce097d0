// Kernels of maps and reductions of expressions over several tensors.
#include "fused_source.hpp"

#include <algorithm>
#include <limits>

#include "../../codegen/glsl/program.hpp"
#include "../../codegen/glsl/shader.hpp"

namespace topograd::ops::detail {
namespace {

using codegen::Lines;
using codegen::Precision;
using codegen::text;

class Writer {
 public:
  explicit Writer(const FusedForm& form) : form_(form), prepared_(codegen::prepare(form.program)) {
    codegen::LeafNames names;
    for (unsigned k = 0; k < form.inputs.size(); ++k) names.parameters.push_back(text("x", k));
    for (unsigned k = 0; k < form.program.leaves.uniforms; ++k) {
      const bool wide = form.precision == Precision::f64;
      names.uniforms.push_back(
          wide ? text("packDouble2x32(uvec2(number_", k, "_low, number_", k, "_high))")
               : text("uintBitsToFloat(number_", k, ")"));
    }
    written_ = codegen::write_program(prepared_, names, form.precision, shader_);
    for (unsigned k = 0; k < form.inputs.size(); ++k) {
      const bool vector =
          form.together == Together::vectors && form.inputs[k].pattern == AccessPattern::linear;
      const std::string type(vector ? "vec4" : scalar());
      parts_.arguments.push_back(
          {text("in_", k), form.inputs[k].half ? "uint" : type, Access::read});
    }
    parts_.extensions.assign(shader_.extensions().begin(), shader_.extensions().end());
  }

  ComputeKernel map() {
    const auto outputs = static_cast<unsigned>(written_.outputs.size());
    for (unsigned k = 0; k < outputs; ++k) output(k);
    words({"count"});
    parts_.name = text("map_", operations(), "_ops");
    parts_.functions = shader_.functions();
    if (form_.together != Together::one) return map_together();
    Lines body(1);
    body.line("uint stride = gl_NumWorkGroups.x * 256u;");
    body.open("for (uint i = gl_GlobalInvocationID.x; i < count; i += stride)");
    read_inputs(body);
    body.lines(shader_.body().text());
    std::string at = "i";
    if (form_.output == AccessPattern::strided) {
      at = "at_0 * step_out_0";
      for (unsigned axis = 1; axis < form_.rank; ++axis)
        at += text(" + at_", axis, " * step_out_", axis);
    }
    for (unsigned k = 0; k < outputs; ++k)
      body.line("out_", k, "(", at, ") = ", written_.outputs[k], ";");
    body.close();
    parts_.body = body.text();
    return make_kernel(parts_);
  }

  /// Blocks of 256 invocations: several reads cost the time of one, and vectors save instructions.
  ComputeKernel map_together() {
    const bool vectors = form_.together == Together::vectors;
    const unsigned turns = vectors ? 2 : 4, block = 256 * turns;
    value_function();
    Lines body(1);
    body.open("for (uint block = gl_WorkGroupID.x; block * ", block,
              "u < count; block += gl_NumWorkGroups.x)");
    body.line("uint i = block * ", block, "u + gl_LocalInvocationID.x;");
    body.open("if (count - block * ", block, "u >= ", block, "u)");
    for (unsigned n = 0; n < turns; ++n) read_together(body, text("_", n), 256 * n);
    for (unsigned n = 0; n < turns; ++n)
      body.line("out_0(i + ", 256 * n, "u) = ", values_together(text("_", n)), ";");
    body.close();
    body.open("else for (; i < count; i += 256u)");
    read_together(body, "", 0);
    body.line("out_0(i) = ", values_together(""), ";");
    body.close();
    body.close();
    parts_.body = body.text();
    return make_kernel(parts_);
  }

  ComputeKernel reduce(FusedReduction reduction, bool by_workgroup) {
    reduction_ = reduction;
    output(0);
    words({"outputs", "depth", "segment"});
    static constexpr std::string_view kNames[] = {"sum", "max", "min", "argmax", "argmin"};
    parts_.name = text("reduce_", kNames[static_cast<std::size_t>(reduction)], "_", operations(),
                       by_workgroup ? "_ops_rows" : "_ops_columns");
    Lines out;
    out.lines(shader_.functions());
    out.open(scalar(), " value_at(uint i)");
    read_inputs(out);
    out.lines(shader_.body().text());
    out.line("return ", written_.outputs[0], ";");
    out.close();
    out.line(is_nan_glsl(form_.precision == Precision::f64 ? Type::f64 : Type::f32));
    combine(out);
    if (by_workgroup) out.line("shared ", scalar(), " bests[256];");
    if (by_workgroup && arg()) out.line("shared uint places[256];");
    parts_.functions = out.text();
    parts_.body = by_workgroup ? reduce_by_workgroup() : reduce_by_invocation();
    return make_kernel(parts_);
  }

 private:
  std::string_view scalar() const { return codegen::scalar_type(form_.precision); }
  unsigned operations() const {
    return static_cast<unsigned>(ir::operation_count(prepared_.program));
  }
  bool arg() const {
    return reduction_ == FusedReduction::argmax || reduction_ == FusedReduction::argmin;
  }

  void output(unsigned k) {
    const std::string type(form_.together == Together::vectors ? "vec4" : scalar());
    parts_.arguments.push_back({text("out_", k), type, Access::write});
  }

  /// Writes value_of(x0, x1, ...) for one element.
  void value_function() {
    std::string parameters;
    for (unsigned k = 0; k < form_.inputs.size(); ++k)
      parameters += text(k > 0 ? ", " : "", scalar(), " x", k);
    Lines functions;
    functions.lines(shader_.functions());
    functions.open(scalar(), " value_of(", parameters, ")");
    functions.lines(shader_.body().text());
    functions.line("return ", written_.outputs[0], ";");
    functions.close();
    parts_.functions = functions.text();
  }

  /// Reads x0 etc. at `i` and `further` on.
  void read_together(Lines& out, std::string_view suffix, unsigned further) const {
    for (unsigned k = 0; k < form_.inputs.size(); ++k) {
      const bool linear = form_.inputs[k].pattern == AccessPattern::linear;
      const std::string at = further > 0 ? text("(i + ", further, "u);") : "(i);";
      out.line(parts_.arguments[k].type, " x", k, suffix, " = in_", k, linear ? at : "(0u);");
    }
  }

  /// The values for the numbers read.
  std::string values_together(std::string_view suffix) const {
    const auto call = [&](std::string_view member) {
      std::string out = "value_of(";
      for (unsigned k = 0; k < form_.inputs.size(); ++k) {
        const bool vector = form_.inputs[k].pattern == AccessPattern::linear;
        out += text(k > 0 ? ", x" : "x", k, suffix, vector ? member : "");
      }
      return out + ")";
    };
    if (form_.together != Together::vectors) return call("");
    return text("vec4(", call(".x"), ", ", call(".y"), ", ", call(".z"), ", ", call(".w"), ")");
  }

  void words(std::initializer_list<const char*> own) {
    std::vector<std::string>& out = parts_.words;
    for (unsigned k = 0; k < form_.program.leaves.uniforms; ++k) {
      if (form_.precision == Precision::f64) {
        out.push_back(text("number_", k, "_low"));
        out.push_back(text("number_", k, "_high"));
      } else {
        out.push_back(text("number_", k));
      }
    }
    out.insert(out.end(), own.begin(), own.end());
    for (unsigned axis = 1; form_.strided() && axis < form_.rank; ++axis)
      out.push_back(text("size_", axis));
    for (unsigned k = 0; k < form_.inputs.size(); ++k) {
      if (form_.inputs[k].half) out.push_back(text("upper_", k));
      for (unsigned axis = 0;
           form_.inputs[k].pattern == AccessPattern::strided && axis < form_.rank; ++axis)
        out.push_back(text("step_", k, "_", axis));
    }
    for (unsigned axis = 0; form_.output == AccessPattern::strided && axis < form_.rank; ++axis)
      out.push_back(text("step_out_", axis));
  }

  /// Reads the inputs x0, x1, ... at element i, after computing its coordinates.
  void read_inputs(Lines& out) const {
    if (form_.strided()) {
      out.line("uint rest = i;");
      for (unsigned axis = form_.rank - 1; axis > 0; --axis) {
        out.line("uint at_", axis, " = rest % size_", axis, ";");
        out.line("rest /= size_", axis, ";");
      }
      out.line("uint at_0 = rest;");
    }
    for (unsigned k = 0; k < form_.inputs.size(); ++k) read_input(out, k);
  }

  void read_input(Lines& out, unsigned k) const {
    std::string at = form_.inputs[k].pattern == AccessPattern::linear ? "i" : "0u";
    if (form_.inputs[k].pattern == AccessPattern::strided) {
      at = text("at_0 * step_", k, "_0");
      for (unsigned axis = 1; axis < form_.rank; ++axis)
        at += text(" + at_", axis, " * step_", k, "_", axis);
    }
    if (!form_.inputs[k].half) {
      out.line(scalar(), " x", k, " = in_", k, "(", at, ");");
      return;
    }
    out.line("uint e", k, " = ", at, " + upper_", k, ";");
    out.line("vec2 pair", k, " = unpackHalf2x16(in_", k, "(e", k, " >> 1u));");
    out.line(scalar(), " x", k, " = (e", k, " & 1u) == 0u ? pair", k, ".x : pair", k, ".y;");
  }

  /// Writes combine(best, value), or combine(best, place, value, at) for indices.
  void combine(Lines& out) const {
    const bool least = reduction_ == FusedReduction::min || reduction_ == FusedReduction::argmin;
    const std::string_view better = least ? "<" : ">";
    if (!arg()) {
      out.open("void combine(inout ", scalar(), " best, ", scalar(), " value)");
      if (reduction_ == FusedReduction::sum) {
        out.line("best += value;");
      } else {
        out.line("if (is_nan(value) || value ", better, " best) best = value;");
      }
    } else {
      out.open("void combine(inout ", scalar(), " best, inout uint place, ", scalar(),
               " value, uint at)");
      out.line("if (at == ~0u) return;");
      out.line("bool first = value == best && at < place;");
      out.line("bool number = value ", better, " best || first;");
      out.line(
          "bool wins = is_nan(value) ? !is_nan(best) || at < place : !is_nan(best) && number;");
      out.open("if (place == ~0u || wins)");
      out.line("best = value;");
      out.line("place = at;");
      out.close();
    }
    out.close();
  }

  std::string identity() const {
    const double infinity = std::numeric_limits<double>::infinity();
    if (reduction_ == FusedReduction::max) return codegen::literal(-infinity, form_.precision);
    if (reduction_ == FusedReduction::min) return codegen::literal(infinity, form_.precision);
    return codegen::literal(0, form_.precision);
  }

  std::string result() const { return arg() ? text(scalar(), "(place)") : std::string("best"); }

  /// Writes a loop over this invocation's elements of a piece.
  void gather(Lines& out, std::string_view from, std::string_view step) const {
    out.line(scalar(), " best = ", identity(), ";");
    if (arg()) out.line("uint place = ~0u;");
    out.line("uint end = min(depth, (piece + 1u) * segment);");
    out.open("for (uint r = piece * segment + ", from, "; r < end; r += ", step, ")");
    out.line("combine(best, ", arg() ? "place, " : "", "value_at(result * depth + r)",
             arg() ? ", r" : "", ");");
    out.close();
  }

  std::string reduce_by_invocation() const {
    Lines out(1);
    out.line("uint piece = gl_WorkGroupID.y;");
    out.line("uint stride = gl_NumWorkGroups.x * 256u;");
    out.open("for (uint result = gl_GlobalInvocationID.x; result < outputs; result += stride)");
    gather(out, "0u", "1u");
    out.line("out_0(piece * outputs + result) = ", result(), ";");
    out.close();
    return out.text();
  }

  std::string reduce_by_workgroup() const {
    Lines out(1);
    out.line("uint self = gl_LocalInvocationID.x;");
    out.line("uint piece = gl_WorkGroupID.y;");
    out.open(
        "for (uint result = gl_WorkGroupID.x; result < outputs; result += gl_NumWorkGroups.x)");
    gather(out, "self", "256u");
    out.line("barrier();");
    out.line("bests[self] = best;");
    if (arg()) out.line("places[self] = place;");
    out.open("for (uint width = 128u; width > 0u; width >>= 1u)");
    out.line("barrier();");
    out.open("if (self < width)");
    out.line("combine(best, ", arg() ? "place, " : "", "bests[self + width]",
             arg() ? ", places[self + width]" : "", ");");
    out.line("bests[self] = best;");
    if (arg()) out.line("places[self] = place;");
    out.close();
    out.close();
    out.line("if (self == 0u) out_0(piece * outputs + result) = ", result(), ";");
    out.close();
    return out.text();
  }

  const FusedForm& form_;
  FusedReduction reduction_ = FusedReduction::sum;
  codegen::Prepared prepared_;
  codegen::Shader shader_;
  codegen::Written written_;
  KernelParts parts_;
};

}  // namespace

ComputeKernel map_kernel(const FusedForm& form) { return Writer(form).map(); }

ComputeKernel reduce_kernel(const FusedForm& form, FusedReduction reduction, bool by_workgroup) {
  return Writer(form).reduce(reduction, by_workgroup);
}

std::string is_nan_glsl(Type type) {
  if (type == Type::f32)
    return "bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }";
  return "bool is_nan(double x) {\n"
         "  uvec2 bits = unpackDouble2x32(x);\n"
         "  uint high = bits.y & 0x7fffffffu;\n"
         "  return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u);\n"
         "}";
}

namespace {

template <class T>
void add_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

bool FusedForm::strided() const {
  return output == AccessPattern::strided ||
         std::ranges::any_of(inputs, [](const FusedInput& input) {
           return input.pattern == AccessPattern::strided;
         });
}

std::uint32_t FusedForm::words(std::uint32_t own) const {
  std::uint32_t count =
      own + program.leaves.uniforms * (precision == codegen::Precision::f64 ? 2 : 1);
  if (strided()) count += rank - 1;
  for (const FusedInput& input : inputs)
    count += (input.half ? 1 : 0) + (input.pattern == AccessPattern::strided ? rank : 0);
  return count + (output == AccessPattern::strided ? rank : 0);
}

std::uint32_t FusedForm::arguments() const {
  return static_cast<std::uint32_t>(inputs.size() + program.outputs.size());
}

std::string FusedForm::key() const {
  std::string out;
  for (const ir::Node& node : program.nodes) {
    add_bytes(out, node.op);
    add_bytes(out, node.args);
  }
  out += '|';
  for (const ir::Id id : program.outputs) add_bytes(out, id);
  out += '|';
  for (const FusedInput& input : inputs) {
    add_bytes(out, input.pattern);
    add_bytes(out, input.half);
  }
  add_bytes(out, output);
  add_bytes(out, together);
  add_bytes(out, rank);
  add_bytes(out, precision);
  add_bytes(out, program.leaves.uniforms);
  return out;
}

}  // namespace topograd::ops::detail
