// topograd solve: minimises a problem and reports.
#include "command/commands.hpp"
#include "command/mesh_file.hpp"
#include "command/named_problem.hpp"
#include "command/output.hpp"
#include "command/solve_sets.hpp"
#include "command/solver_arguments.hpp"

#include <topograd/api/problem_file.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/solver/solve.hpp>
#include <topograd/solver/summary_json.hpp>

#include <nlohmann/json.hpp>

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

[[noreturn]] void refuse_out(const Arguments& arguments) {
  throw Error(ErrorCode::InvalidArgument,
              arguments.problem.name + ": --out expects a problem that has a mesh");
}

void solve_many(const Arguments& arguments) {
  if (!arguments.out.empty()) refuse_out(arguments);
  const bool quiet = arguments.quiet || arguments.json == "-";
  const SetReport report = solve_set(arguments.problem, arguments.solver, quiet);
  if (!quiet) std::cout << report.verdict() << std::endl;
  write_json(arguments.json, report.json());
}

void solve_problem(const Arguments& arguments) {
  if (is_set(arguments.problem.name)) return solve_many(arguments);
  SolverOptions options = to_options(arguments.solver);
  const std::unique_ptr<NamedProblem> named = make_problem(arguments.problem);
  const ProblemFile* file = named->file();
  if (file != nullptr) {
    options = to_options(arguments.solver, file->options);
  } else if (!arguments.solver.max_iterations) {
    options.max_iterations = 100;
  }
  if (!arguments.out.empty() && named->mesh().positions.empty()) refuse_out(arguments);
  Summary summary = solve(named->problem(), options);
  summary.times.build_seconds = named->build_seconds;
  if (!arguments.quiet && arguments.json != "-") std::cout << summary.full_report() << std::flush;
  if (!arguments.out.empty()) write_mesh(arguments.out, named->mesh());
  if (arguments.json.empty()) return;
  auto report = nlohmann::ordered_json::parse(to_json(summary));
  if (file != nullptr) {
    report["parameters"] = nlohmann::ordered_json::object();
    for (const ProblemFile::Array& array : file->parameters)
      report["parameters"][array.name] = array.values;
  }
  named->describe_answer(report);
  write_json(arguments.json, report);
}

}  // namespace

void add_solve(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("solve", "Minimises a problem or what a JSON file describes");
  add_problem_options(*command, arguments->problem);
  add_data_option(*command, arguments->problem);
  add_generator_options(*command, arguments->problem);
  add_place_options(*command, arguments->solver);
  add_solve_options(*command, arguments->solver);
  command->add_option("--out", arguments->out, "OBJ file for the mesh at the end");
  command->add_option("--json", arguments->json, "file for the report, - for standard output");
  command->add_flag("--quiet", arguments->quiet, "print no summary");
  command->callback([arguments] { solve_problem(*arguments); });
}

}  // namespace topograd::command
