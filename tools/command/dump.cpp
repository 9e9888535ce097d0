// topograd dump: sources of the kernels of a problem or an expression, and lists of topologies.
#include "command/commands.hpp"
#include "command/expression_arguments.hpp"
#include "command/named_problem.hpp"
#include "command/output.hpp"

#include <topograd/api/node_values.hpp>
#include <topograd/api/source.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/solver/options.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

struct DumpArguments {
  ProblemArguments problem;
  ExpressionArguments expression;
  std::string kernel = "gradient", accumulate = "gather_recompute", precision = "f64",
              emit = "glsl", out = "-";
  bool list = false;
  bool values = false;
  std::size_t instance = 0;
  std::vector<double> at;
  std::string backend, device;
};

/// --values: every node of one instance on the evaluator, the interpreter and the device.
NodeValues values(const DumpArguments& arguments, bool precision_given) {
  check::Options places{.device = arguments.device};
  if (!arguments.backend.empty()) places.backend = parse_backend(arguments.backend);
  if (precision_given) places.precision = parse_precision(arguments.precision);
  const NodeValuesOptions options{.kernel = arguments.kernel, .instance = arguments.instance};
  const std::vector<check::Place> opened = check::open_places(places);
  if (!arguments.expression.text.empty())
    return node_values(parse_expression(arguments.expression), arguments.at, options, opened);
  return node_values(make_problem(arguments.problem)->problem(), options, opened);
}

/// One of a problem and an expression is asked for.
void check_source(const DumpArguments& arguments, bool problem_options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::InvalidArgument, "dump: " + message);
  };
  const std::string& name = arguments.problem.name;
  if (!arguments.expression.text.empty()) {
    if (!name.empty()) refuse("expected a problem or --expr, got both: " + name + " and --expr");
    if (problem_options) refuse("--mesh, --width and --shuffle belong to a problem, got --expr");
    if (arguments.list) refuse("--list belongs to a problem, got --expr");
  } else if (name.empty()) {
    refuse("expected a problem or --expr, got neither");
  } else if (arguments.expression.any()) {
    refuse("--params, --data and --uniforms belong to --expr, got the problem " + name);
  }
}

void dump(const DumpArguments& arguments) {
  const SourceOptions options{.kernel = arguments.kernel,
                              .accumulation = codegen::parse_accumulation(arguments.accumulate),
                              .precision = parse_precision(arguments.precision),
                              .format = arguments.emit};
  if (!arguments.expression.text.empty()) {
    return write_text(arguments.out, source(parse_expression(arguments.expression),
                                            arguments.expression.names, options));
  }
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  write_text(arguments.out,
             arguments.list ? topology_table(named->problem()) : source(named->problem(), options));
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
  command.option("--accumulate", &arguments->accumulate,
                 "gather_store, gather_recompute, atomic_float or atomic_cas");
  command.option("--precision", &arguments->precision, "of the kernels").choices({"f32", "f64"});
  command.option("--emit", &arguments->emit, "language")
      .choices({"ir", "dot", "glsl", "spirv", "hlsl", "msl", "essl", "c"});
  command.output("--out", &arguments->out, "file, - for standard output");
  command.flag("--list", arguments->list, "list topologies instead");
  command.flag("--values", arguments->values,
               "every node's value on the evaluator, the interpreter and the device");
  command.option("--instance", &arguments->instance, "with --values: of each topology (0)");
  command
      .option("--at", &arguments->at,
              "with --values and --expr: parameters, data and uniforms, separated by commas")
      .delimiter(',');
  command.option("--backend", &arguments->backend, "with --values: cpu or vulkan alone");
  command.option("--device", &arguments->device, "with --values: index or name of a device");
  command.callback([arguments, command] {
    // --data names a set's files for nist, and the data of an expression otherwise.
    if (arguments->problem.name == "nist") {
      for (const std::string& part : std::exchange(arguments->expression.names.data, {}))
        arguments->problem.data += (arguments->problem.data.empty() ? "" : ",") + part;
    }
    const auto given = [&](const char* option) { return command.given(option); };
    check_source(*arguments, given("--mesh") || given("--width") || given("--shuffle"));
    if (!arguments->values) return dump(*arguments);
    const NodeValues found = values(*arguments, given("--precision"));
    write_text(arguments->out, found.text);
    if (found.differs) throw BoundBroken{};
  });
}

}  // namespace topograd::command
