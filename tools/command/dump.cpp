// topograd dump: sources of the kernels of a problem or an expression, and lists of topologies.
#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "arguments/shared_arguments.hpp"
#include "dump_operations.hpp"
#include "input/named_problem.hpp"

#include "../../api/node_values.hpp"
#include "../../api/source.hpp"
#include "../../frontend/host_residual.hpp"
#include "../../ir/error.hpp"
#include "../../solver/options.hpp"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

struct DumpArguments {
  ProblemArguments problem;
  ExpressionArguments expression;
  std::string kernel = "gradient", accumulate = "gather_recompute", precision = "f64",
              emit = "glsl", out = "-", topology, operation;
  bool list = false;
  bool values = false;
  std::size_t instance = 0;
  std::vector<double> at;
  std::string backend, device;
};

/// --values: prints every node of one instance on the evaluator, the interpreter and the device.
NodeValues values(const DumpArguments& arguments, bool precision_given) {
  check::Options where{.device = arguments.device};
  if (!arguments.backend.empty()) where.backend = parse_backend(arguments.backend);
  if (precision_given) where.precision = parse_precision(arguments.precision);
  const NodeValuesOptions options{.kernel = arguments.kernel, .instance = arguments.instance};
  if (!arguments.expression.text.empty())
    return node_values(parse_expression(arguments.expression), arguments.at, options, where);
  return node_values(make_problem(arguments.problem)->problem(), options, where);
}

/// --values of --operation: of the operation on one device.
std::string values_of_operation(const DumpArguments& arguments) {
  const Backend backend =
      arguments.backend.empty() ? Backend::automatic : parse_backend(arguments.backend);
  if (backend == Backend::cpu) return operation_values(arguments.operation, ops::Device::cpu());
  const bool named = backend == Backend::vulkan || !arguments.device.empty();
  return operation_values(arguments.operation,
                          named ? ops::Device::vulkan(arguments.device) : ops::Device::best());
}

/// Requires either a problem or an expression.
void check_source(const DumpArguments& arguments, bool problem_options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::InvalidArgument, "dump: " + message);
  };
  const std::string& name = arguments.problem.name;
  if (!arguments.operation.empty()) {
    if (!name.empty() || !arguments.expression.text.empty() || arguments.list)
      refuse("--operation stands alone, without a problem, --expr and --list");
    return;
  }
  if (!arguments.expression.text.empty()) {
    if (!name.empty()) refuse("expected a problem or --expr, got both: " + name + " and --expr");
    if (!arguments.topology.empty()) refuse("--topology belongs to a problem, got --expr");
    if (problem_options) refuse("--mesh, --width and --shuffle belong to a problem, got --expr");
    if (arguments.list) refuse("--list belongs to a problem, got --expr");
  } else if (name.empty()) {
    refuse("expected a problem or --expr, got neither");
  } else if (arguments.expression.any()) {
    refuse("--params, --data and --uniforms belong to --expr, got the problem " + name);
  }
}

/// True if a path is an existing folder or ends in a slash.
bool is_folder(const std::string& path) {
  std::error_code failed;
  return path.ends_with('/') || std::filesystem::is_directory(path, failed);
}

/// Called before the work: creates the folder, or checks that the file is writable and not read.
void prepare_output(const std::string& path, const std::string& input) {
  if (!is_folder(path)) {
    declare_output({"--out", path});
    if (std::error_code failed; std::filesystem::is_regular_file(input, failed)) input_file(input);
    return check_writable(path);
  }
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) throw Error(ErrorCode::File, path + ": cannot be made: " + failed.message());
}

/// Writes one file for each kernel into the folder `--out`.
void write_sources(const DumpArguments& arguments, const std::vector<NamedSource>& kernels) {
  const std::string& format = arguments.emit;
  const std::string ending = format == "spirv" ? "spvasm" : format;
  runtime::FileNames names;
  for (const NamedSource& kernel : kernels) {
    const std::filesystem::path file(names.next(kernel.name) + "." + ending);
    write_text((std::filesystem::path(arguments.out) / file).string(), kernel.text);
  }
}

void dump(const DumpArguments& arguments) {
  const SourceOptions options{.kernel = arguments.kernel,
                              .accumulation = codegen::parse_accumulation(arguments.accumulate),
                              .precision = parse_precision(arguments.precision),
                              .format = arguments.emit,
                              .topology = arguments.topology};
  const bool folder = is_folder(arguments.out);
  if (!arguments.operation.empty()) {
    const std::vector<NamedSource> kernels =
        sources(operation_kernels(arguments.operation, arguments.device), options.format);
    if (folder) return write_sources(arguments, kernels);
    std::string text;
    for (const NamedSource& kernel : kernels)
      text += (text.empty() ? "// " : "\n// ") + kernel.title + "\n" + kernel.text;
    return write_text(arguments.out, text);
  }
  if (!arguments.expression.text.empty()) {
    const ir::Program program = parse_expression(arguments.expression);
    if (folder)
      return write_sources(arguments, sources(program, arguments.expression.names, options));
    return write_text(arguments.out, source(program, arguments.expression.names, options));
  }
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  if (arguments.list) {
    const std::string long_ones = explain(named->problem());
    const std::string table = topology_table(named->problem()) +
                              (long_ones.empty() ? "" : "\nLong expressions:\n" + long_ones);
    return write_text(folder ? arguments.out + "/topologies.txt" : arguments.out, table);
  }
  if (folder) return write_sources(arguments, sources(named->problem(), options));
  write_text(arguments.out, source(named->problem(), options));
}

}  // namespace

void add_dump(Command app) {
  auto arguments = std::make_shared<DumpArguments>();
  Command command =
      app.subcommand("dump", "Prints the source of the kernels of a problem or an expression");
  add_problem_options(command, arguments->problem, {.required = false});
  command.group("An expression instead of a problem");
  add_expression_options(command, arguments->expression);
  command.group("What is printed");
  command.option("--kernel", &arguments->kernel,
                 "residual, cost, gradient, jacobian, jtjp, blocks, jvp, vjp, hvp or hessian");
  command.option("--accumulate", &arguments->accumulate, "how gradients are summed")
      .choices(names_of<codegen::Accumulation>());
  command.option("--precision", &arguments->precision, "of the kernels")
      .choices(names_of(codegen::kKernelPrecisions));
  command.option("--emit", &arguments->emit, "language")
      .choices({"ir", "dot", "glsl", "spirv", "hlsl", "msl", "essl", "wgsl", "c", "js"});
  command.option(
      "--out", &arguments->out,
      "file, - for standard output; a folder (one that is there, or FOLDER/): one file a "
      "kernel");
  command.option("--topology", &arguments->topology,
                 "of a problem: the topology of this name or hash alone");
  command.option("--operation", &arguments->operation,
                 "kernels of arrays and tensors instead: of one operation (bench ops names them), "
                 "or all");
  command.flag("--list", arguments->list,
               "list topologies instead, and how long expressions are evaluated");
  command.flag(
      "--values", arguments->values,
      "every node's value on the evaluator, the interpreter and the device; with --operation "
      "also the first operands and results");
  command.option("--instance", &arguments->instance,
                 "with --values: number of the instance of each topology");
  command
      .option("--at", &arguments->at,
              "with --values and --expr: parameters, data and uniforms, separated by commas")
      .delimiter(',');
  command.option("--backend", &arguments->backend, "with --values: cpu or vulkan alone");
  command.option("--device", &arguments->device,
                 "with --values and --operation: index or name of a device");
  command.callback([arguments, command] {
    // --data gives a set's files for nist, and the data of an expression otherwise.
    if (arguments->problem.name == "nist") {
      for (const std::string& part : std::exchange(arguments->expression.names.data, {}))
        arguments->problem.data += (arguments->problem.data.empty() ? "" : ",") + part;
    }
    const auto given = [&](const char* option) { return command.given(option); };
    prepare_output(arguments->out, arguments->problem.name);
    check_source(*arguments, given("--mesh") || given("--width") || given("--shuffle"));
    if (!arguments->values) return dump(*arguments);
    const auto write = [&](const std::string& text) {
      write_text(is_folder(arguments->out) ? arguments->out + "/values.txt" : arguments->out, text);
    };
    if (!arguments->operation.empty()) return write(values_of_operation(*arguments));
    const NodeValues found = values(*arguments, given("--precision"));
    write(found.text);
    if (found.differs) throw BoundBroken{};
  });
}

}  // namespace topograd::command
