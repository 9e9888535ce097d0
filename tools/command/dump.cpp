// topograd dump: the sources of a problem's kernels, and the list of its topologies.
#include "command/commands.hpp"
#include "command/named_problem.hpp"
#include "command/output.hpp"

#include <topograd/api/source.hpp>
#include <topograd/solver/options.hpp>

#include <memory>

namespace topograd::command {
namespace {

struct Arguments {
  ProblemArguments problem;
  std::string kernel = "gradient", accumulate = "gather_recompute", precision = "f64",
              emit = "glsl", out = "-";
  bool list = false;
};

void dump(const Arguments& arguments) {
  const SourceOptions options{.kernel = arguments.kernel,
                              .accumulation = codegen::parse_accumulation(arguments.accumulate),
                              .precision = parse_precision(arguments.precision),
                              .format = arguments.emit};
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  write_text(arguments.out,
             arguments.list ? topology_table(named->problem()) : source(named->problem(), options));
}

}  // namespace

void add_dump(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("dump", "Prints the source of a problem's kernels");
  add_problem_options(*command, arguments->problem);
  command->add_option("--kernel", arguments->kernel,
                      "residual, cost, gradient, jacobian, jtjp, blocks, jvp or vjp");
  command->add_option("--accumulate", arguments->accumulate,
                      "gather_store, gather_recompute, atomic_float or atomic_cas");
  command->add_option("--precision", arguments->precision, "f32 or f64");
  command->add_option("--emit", arguments->emit, "ir, dot, glsl, spirv, hlsl, msl or essl");
  command->add_option("--out", arguments->out, "file, - for standard output");
  command->add_flag("--list", arguments->list, "list topologies instead");
  command->callback([arguments] { dump(*arguments); });
}

}  // namespace topograd::command
