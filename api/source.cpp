// Printing of kernels and topologies.
#include <topograd/api/source.hpp>

#include <topograd/api/compiled_source.hpp>
#include <topograd/autodiff/derivatives.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/ir/text.hpp>
#include <topograd/runtime/requests.hpp>
#include <topograd/solver/model.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

namespace topograd {
namespace {

using codegen::KernelRequest;
using runtime::Pass;

constexpr std::array kPasses = {Pass::residual, Pass::cost,   Pass::gradient, Pass::jacobian,
                                Pass::jtjp,     Pass::blocks, Pass::jvp,      Pass::vjp};
constexpr std::array kFormats = {"ir", "dot", "glsl", "spirv", "hlsl", "msl", "essl"};

Pass parse_pass(const std::string& text) {
  std::string names;
  for (Pass pass : kPasses) {
    if (text == name(pass)) return pass;
    names += (names.empty() ? "" : ", ") + std::string(name(pass));
  }
  throw Error(ErrorCode::InvalidArgument,
              "dump: expected --kernel " + names + ", got \"" + text + "\"");
}

/// Programs of a request: one, or one a role.
std::vector<const ir::Program*> programs(const KernelRequest& request) {
  if (request.roles.empty()) return {&request.program};
  std::vector<const ir::Program*> found;
  for (const codegen::GatherRole& role : request.roles) {
    if (!role.program.outputs.empty()) found.push_back(&role.program);
  }
  return found;
}

std::string emit(const KernelRequest& request, const std::string& format) {
  if (format == "ir" || format == "dot") {
    std::string text;
    for (const ir::Program* program : programs(request)) {
      if (format == "ir") text += "# " + request.name + ": " + request.title + "\n";
      text += format == "ir" ? ir::print(*program) : ir::print_dot(*program, request.name);
    }
    return text;
  }
  const codegen::KernelSource source = generate(request);
  return format == "glsl" ? source.glsl : compiled_source(source, format);
}

std::string list_line(const runtime::Term& term, std::span<const runtime::ParameterArray> arrays) {
  const ir::Program& f = term.topology->program;
  const auto operations = [&](Pass pass) {
    return operation_count(pass_program(pass, f, autodiff::all_slots(f)));
  };
  const std::uint32_t bytes =
      generate(store_request(shape_of(term, arrays), Pass::residual)).bytes_per_instance;
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), "%s  %-16s %10zu %8zu %10u %9zu %9zu %9zu %6u\n",
                to_string(term.topology->hash).c_str(), term.name.c_str(), term.batch->size(),
                f.outputs.size(), f.leaves.parameters, operations(Pass::residual),
                operations(Pass::gradient), operations(Pass::jacobian), bytes);
  return line.data();
}

}  // namespace

std::string source(const Problem& problem, const SourceOptions& options) {
  const Pass pass = parse_pass(options.kernel);
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    throw Error(ErrorCode::InvalidArgument,
                "dump: expected --emit ir, dot, glsl, spirv, hlsl, msl or essl, got \"" +
                    options.format + "\"");
  }
  const runtime::Model model = make_model("dump", problem).model;
  std::string text;
  for (const runtime::Term& term : model.terms) {
    for (KernelRequest& request :
         runtime::requests(term, model.arrays, pass, options.accumulation)) {
      request.precision = options.precision;
      if (!text.empty()) text += "\n";
      text += emit(request, options.format);
    }
  }
  return text;
}

std::string topology_table(const Problem& problem) {
  const runtime::Model model = make_model("dump", problem).model;
  std::array<char, 256> head{};
  std::snprintf(head.data(), head.size(), "%-32s  %-16s %10s %8s %10s %9s %9s %9s %6s\n",
                "topology", "name", "instances", "outputs", "parameters", "residual", "gradient",
                "jacobian", "bytes");
  std::string text = head.data();
  for (const runtime::Term& term : model.terms) text += list_line(term, model.arrays);
  return text +
         "residual, gradient, jacobian: operations of one instance; bytes: columns read and rows "
         "written by the residual kernel, f64, an instance\n";
}

}  // namespace topograd
