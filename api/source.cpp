// Prints kernels and topologies.
#include "source.hpp"

#include "../autodiff/derivatives.hpp"
#include "../codegen/glsl/c_source.hpp"
#include "../frontend/inspect/problem_use.hpp"
#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "../runtime/plan/accumulation_rule.hpp"
#include "../runtime/plan/record/remembered_plans.hpp"
#include "../runtime/plan/requests.hpp"
#include "../solver/model/model.hpp"
#include "compiled_source.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using codegen::KernelRequest;
using runtime::Pass;

constexpr std::array kDumpedPasses = {Pass::residual, Pass::cost,   Pass::gradient, Pass::jacobian,
                                      Pass::jtjp,     Pass::blocks, Pass::jvp,      Pass::vjp,
                                      Pass::hvp,      Pass::hessian};
constexpr std::array kFormats = {"ir",  "dot",  "glsl", "spirv", "hlsl",
                                 "msl", "essl", "wgsl", "c",     "js"};

Pass dumped_pass(const std::string& text) {
  return pass_named(text, kDumpedPasses, "dump: expected --kernel");
}

/// Programs of a request: one, or one per slot.
std::vector<const ir::Program*> programs(const KernelRequest& request) {
  if (request.block_slots.empty()) return {&request.program};
  std::vector<const ir::Program*> found;
  for (const codegen::GatherSlot& block_slot : request.block_slots) {
    if (!block_slot.program.outputs.empty()) found.push_back(&block_slot.program);
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

/// True for languages of plain functions, which have no sums over instances.
bool is_plain(const std::string& format) { return format == "c" || format == "js"; }

std::string plain_source(const std::string& format,
                         std::span<const codegen::PlainFunction> functions) {
  return format == "c" ? codegen::c_source(functions) : codegen::javascript_source(functions);
}

void check_format(const SourceOptions& options) {
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    throw Error(
        ErrorCode::InvalidArgument,
        "dump: expected --emit ir, dot, glsl, spirv, hlsl, msl, essl, wgsl, c or js, got \"" +
            options.format + "\"");
  }
  if (is_plain(options.format) && options.precision != codegen::Precision::f64)
    throw Error(ErrorCode::Unsupported, "dump: --emit " + options.format +
                                            " is double precision, got --precision " +
                                            std::string(name(options.precision)));
}

[[noreturn]] void refuse_energies(const SourceOptions& options) {
  throw Error(ErrorCode::InvalidArgument,
              "dump: expected --kernel cost, gradient, hvp or hessian for a problem of energies, "
              "got \"" +
                  options.kernel + "\"");
}

/// A pass over a residual as a plain function; the caller adds sums over instances.
codegen::PlainFunction plain_function(const ir::Topology& topology, const std::string& label,
                                      Pass pass, bool energy = false,
                                      const ir::Program* loss = nullptr) {
  const ir::Program& f = topology.program;
  return {.name = runtime::identifier(label) + "_" + std::string(name(pass)),
          .title = std::string(name(pass)) + " of topology " + to_string(topology.hash),
          .program = pass_program(pass, f, autodiff::all_slots(f), energy, loss)};
}

/// Converts a name to a valid identifier of a shader.
std::string shader_name(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '[' || c == ']') c = '_';
  }
  while (name.ends_with('_')) name.pop_back();
  const bool one_letter = name.find_first_not_of("0123456789", 1) == std::string::npos;
  const bool free =
      one_letter && name != "x" && std::string("cdeikpstuwb").find(name[0]) == std::string::npos;
  return free || name.find('_') != std::string::npos ? name : name + "_";
}

std::vector<std::string> shader_names(std::vector<std::string> names) {
  for (std::string& name : names) name = shader_name(name);
  return names;
}

/// The shape of a single residual whose parameters are independent arrays.
runtime::TermShape alone(const ir::Topology& topology) {
  runtime::TermShape shape{.topology = &topology,
                           .name = "expression",
                           .layout = codegen::general_layout(topology.program.leaves),
                           .groups = {}};
  for (std::uint32_t slot = 0; slot < topology.program.leaves.parameters; ++slot)
    shape.groups.push_back({.array = runtime::kScalars, .slots = {slot}, .coordinates = {0}});
  return shape;
}

/// The printed source: kernels, or functions for the formats c and js.
struct Collected {
  std::vector<KernelRequest> requests;
  std::vector<codegen::PlainFunction> functions;
};

/// True if the topology is selected by name or hash.
bool is_wanted(const runtime::Term& term, const std::string& wanted) {
  constexpr std::size_t kLeastDigits = 8;
  if (wanted.empty() || term.name == wanted) return true;
  return wanted.size() >= kLeastDigits && to_string(term.topology->hash).starts_with(wanted);
}

[[noreturn]] void refuse_topology(const runtime::Model& model, const std::string& wanted) {
  std::string there;
  for (const runtime::Term& term : model.terms)
    there += (there.empty() ? "" : ", ") + term.name + " (" + to_string(term.topology->hash) + ")";
  throw Error(ErrorCode::InvalidArgument,
              "dump: expected --topology with a name or a hash of this problem, got \"" + wanted +
                  "\"; there is: " + there);
}

Collected collect(const Problem& problem, const SourceOptions& options) {
  ProblemUse::settle_long_blocks(problem, true);
  const Pass pass = dumped_pass(options.kernel);
  check_format(options);
  const runtime::Model model = make_model("dump", problem).model;
  if (std::ranges::none_of(model.terms,
                           [&](const auto& term) { return is_wanted(term, options.topology); }))
    refuse_topology(model, options.topology);
  Collected out;
  for (const runtime::Term& term : model.terms) {
    if (!is_wanted(term, options.topology)) continue;
    if (term.energy && !runtime::energies_take_part(pass)) continue;
    if (is_plain(options.format)) {
      out.functions.push_back(
          plain_function(*term.topology, term.name, pass, term.energy, term.loss));
      continue;
    }
    for (KernelRequest& request : runtime::requests(term, model.arrays, pass, options.accumulation))
      out.requests.push_back(std::move(request));
  }
  if (out.functions.empty() && out.requests.empty()) refuse_energies(options);
  return out;
}

Collected collect(const ir::Program& residual, const ExpressionNames& names,
                  const SourceOptions& options) {
  const Pass pass = dumped_pass(options.kernel);
  check_format(options);
  if (residual.leaves.parameters == 0)
    throw Error(ErrorCode::NoParameters, "dump: expected at least one parameter, got none");
  const ir::Topology topology = {residual, ir::canonicalize(residual).topology.hash};
  if (is_plain(options.format))
    return {.functions = {plain_function(topology, "expression", pass)}};
  Collected out{.requests = runtime::requests(alone(topology), {}, pass, options.accumulation)};
  for (KernelRequest& request : out.requests) {
    request.parameter_names = shader_names(names.parameters);
    request.data_names = shader_names(names.data);
    request.uniform_names = shader_names(names.uniforms);
  }
  return out;
}

std::vector<NamedSource> split(Collected collected, const SourceOptions& options) {
  std::vector<NamedSource> out;
  for (const codegen::PlainFunction& function : collected.functions)
    out.push_back({function.name, function.title, plain_source(options.format, {&function, 1})});
  for (KernelRequest& request : collected.requests) {
    request.precision = options.precision;
    out.push_back({request.name, request.title, emit(request, options.format)});
  }
  return out;
}

std::string join(Collected collected, const SourceOptions& options) {
  if (is_plain(options.format)) return plain_source(options.format, collected.functions);
  std::string text;
  for (const NamedSource& kernel : split(std::move(collected), options))
    text += (text.empty() ? "" : "\n") + kernel.text;
  return text;
}

std::string list_line(const runtime::Term& term, std::span<const runtime::ParameterArray> arrays) {
  const ir::Program& f = term.topology->program;
  const auto operations = [&](Pass pass) {
    return operation_count(pass_program(pass, f, autodiff::all_slots(f), term.energy, term.loss));
  };
  const runtime::TermShape shape = shape_of(term, arrays);
  const auto rows = static_cast<std::uint32_t>(8 * f.outputs.size());
  const std::uint32_t all = runtime::stored_bytes(codegen::general_layout(f.leaves), 8) + rows;
  runtime::TermShape plain = shape;
  plain.flexible = {};
  lay_out(plain);
  const std::uint32_t stored = runtime::stored_bytes(plain.layout, 8) + rows;
  const std::uint32_t bytes = runtime::stored_bytes(shape.layout, 8) + rows;
  std::array<char, 256> line{};
  const codegen::Accumulation sums =
      choose_accumulation(estimate_accumulation(shape, Pass::gradient, codegen::Precision::f64));
  std::snprintf(
      line.data(), line.size(), "%s  %-16s %10zu %8zu %10u %9zu %9zu %9zu %7u %8u %6u  %s\n",
      to_string(term.topology->hash).c_str(), term.name.c_str(), term.batch->size(),
      f.outputs.size(), f.leaves.parameters, operations(Pass::residual), operations(Pass::gradient),
      operations(Pass::jacobian), all, stored, bytes, std::string(codegen::name(sums)).c_str());
  return line.data();
}

/// Measured choices that a device will use instead of the rule's, for this machine.
std::string measured(const runtime::Model& model) {
  std::string text;
  const runtime::DiskCache cache({});
  for (const runtime::PlanRecord& plan : runtime::remembered_plans(cache)) {
    const runtime::PlanChoice& made = plan.batches[0];
    const bool here = std::ranges::any_of(model.terms, [&](const runtime::Term& term) {
      return to_string(term.topology->hash) == made.topology &&
             runtime::size_class(term.batch->size()) == runtime::size_class(made.instances);
    });
    if (here) text += plan.device + ", " + plan.precision + ": " + made.text() + "\n";
  }
  return text.empty() ? text : "measured:\n" + text;
}

}  // namespace

std::vector<NamedSource> sources(const Problem& problem, const SourceOptions& options) {
  return split(collect(problem, options), options);
}

std::string source(const Problem& problem, const SourceOptions& options) {
  return join(collect(problem, options), options);
}

std::vector<NamedSource> sources(const ir::Program& residual, const ExpressionNames& names,
                                 const SourceOptions& options) {
  return split(collect(residual, names, options), options);
}

std::string source(const ir::Program& residual, const ExpressionNames& names,
                   const SourceOptions& options) {
  return join(collect(residual, names, options), options);
}

std::vector<NamedSource> sources(std::span<const runtime::ListedKernel> kernels,
                                 const std::string& format) {
  check_format({.format = format});
  if (format == "ir" || format == "dot" || is_plain(format)) {
    throw Error(
        ErrorCode::InvalidArgument,
        "dump: expected --emit glsl, spirv, hlsl, msl, essl or wgsl for kernels of operations, "
        "got \"" +
            format + "\"");
  }
  std::vector<NamedSource> out;
  for (const runtime::ListedKernel& kernel : kernels) {
    out.push_back({.name = kernel.name,
                   .title = kernel.name,
                   .text = format == "glsl" ? kernel.glsl : compiled_source(kernel, format)});
  }
  return out;
}

std::string source(runtime::hybrid::Task& task, std::uint64_t items) {
  const auto program = task.program({0, items});
  return program ? program->glsl : std::string();
}

std::string topology_table(const Problem& problem) {
  const runtime::Model model = make_model("dump", problem).model;
  std::array<char, 256> head{};
  std::snprintf(head.data(), head.size(),
                "%-32s  %-16s %10s %8s %10s %9s %9s %9s %7s %8s %6s  %s\n", "topology", "name",
                "instances", "outputs", "parameters", "residual", "gradient", "jacobian", "general",
                "software", "bytes", "sums");
  std::string text = head.data();
  for (const runtime::Term& term : model.terms) text += list_line(term, model.arrays);
  return text +
         "residual, gradient, jacobian: operations of one instance; bytes: columns read and rows "
         "written by the residual kernel, f64, an instance; software: on a software device, "
         "where no column is left out; general: if every index were stored, too; sums: of the "
         "gradient, by rule\n" +
         measured(model);
}

}  // namespace topograd
