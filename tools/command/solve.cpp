// topograd solve: minimises a problem and reports.
#include "command/commands.hpp"
#include "command/mesh_file.hpp"
#include "command/named_problem.hpp"
#include "command/output.hpp"
#include "command/solver_arguments.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/solver/solve.hpp>
#include <topograd/solver/summary_json.hpp>

#include <iostream>
#include <memory>

namespace topograd::command {
namespace {

struct Arguments {
  ProblemArguments problem;
  SolverArguments solver;
  std::string out, json;
  bool quiet = false;
};

void solve_problem(const Arguments& arguments) {
  const SolverOptions options = [&] {
    SolverOptions made = to_options(arguments.solver);
    if (!arguments.solver.max_iterations) made.max_iterations = 100;
    return made;
  }();
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  if (!arguments.out.empty() && named->mesh().positions.empty()) {
    throw Error(ErrorCode::InvalidArgument,
                arguments.problem.name + ": --out expects a problem that has a mesh");
  }
  Summary summary = solve(named->problem(), options);
  summary.times.build_seconds = named->build_seconds;
  if (!arguments.quiet && arguments.json != "-") std::cout << summary.full_report() << std::flush;
  if (!arguments.out.empty()) write_mesh(arguments.out, named->mesh());
  if (!arguments.json.empty()) write_text(arguments.json, to_json(summary) + "\n");
}

}  // namespace

void add_solve(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("solve", "Minimises a problem");
  add_problem_options(*command, arguments->problem);
  add_place_options(*command, arguments->solver);
  add_solve_options(*command, arguments->solver);
  command->add_option("--out", arguments->out, "OBJ file for the mesh at the end");
  command->add_option("--json", arguments->json, "file for the report, - for standard output");
  command->add_flag("--quiet", arguments->quiet, "print no summary");
  command->callback([arguments] { solve_problem(*arguments); });
}

}  // namespace topograd::command
