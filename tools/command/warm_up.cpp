// topograd warm-up: compiles the kernels for solves of a catalogue of problems, and for operations
// on arrays and tensors.
#include "arguments/commands.hpp"

#include "arguments/output.hpp"
#include "arguments/shared_arguments.hpp"
#include "dump_operations.hpp"
#include "input/named_problem.hpp"
#include "input/photo_model.hpp"

#include "../../ir/error.hpp"
#include "../../ops/backend/device.hpp"
#include "../../solver/interrupts.hpp"
#include "../../solver/solve.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

struct WarmUpArguments {
  ProblemArguments problem;
  std::vector<std::string> more;
  SolverArguments solver;
  std::string operation, json;
  bool quiet = false;
};

std::string text_of(const std::string& name, const WarmUp& made) {
  const std::uint64_t kernels = made.shaders_compiled + made.shader_cache_hits;
  if (kernels == 0) return name + ": nothing to compile on the CPU (" + made.why + ")\n";
  char seconds[40];
  std::snprintf(seconds, sizeof seconds, "%.2f s", made.seconds);
  return name + ": " + std::to_string(kernels) + " kernels on " + made.device + ", " +
         std::to_string(made.shaders_compiled) + " compiled, " +
         std::to_string(made.shader_cache_hits) + " were there; " + seconds + "\n";
}

ordered_json json_of(const std::string& name, const WarmUp& made) {
  return {{"problem", name},
          {"backend", made.backend},
          {"device", made.device},
          {"why", made.why},
          {"shaders_compiled", made.shaders_compiled},
          {"shader_cache_hits", made.shader_cache_hits},
          {"glsl_ms", made.glsl_ms},
          {"spirv_ms", made.spirv_ms},
          {"pipeline_ms", made.pipeline_ms},
          {"device_bytes", made.device_bytes},
          {"seconds", made.seconds}};
}

ops::Device device_of(const SolverArguments& where) {
  const Backend backend = where.backend.empty() ? Backend::automatic : parse_backend(where.backend);
  if (backend == Backend::cpu) return ops::Device::cpu();
  if (backend == Backend::vulkan || !where.device.empty()) return ops::Device::vulkan(where.device);
  return ops::Device::best();
}

std::string text_of(const WarmOperation& made, const std::string& device) {
  if (!made.problem.empty()) return made.operation + ": " + made.problem + "\n";
  char seconds[40];
  std::snprintf(seconds, sizeof seconds, "%.2f s", made.seconds);
  return made.operation + ": " + std::to_string(made.compiled + made.from_disk) + " kernels on " +
         device + ", " + std::to_string(made.compiled) + " compiled, " +
         std::to_string(made.from_disk) + " were there; " + seconds + "\n";
}

/// Adds a row for each operation; returns the number of kernels that were compiled.
std::uint64_t run_operations(const WarmUpArguments& arguments, ordered_json& report) {
  const bool prints = !arguments.quiet && arguments.json != "-";
  report["operations"] = ordered_json::array();
  const ops::Device device = device_of(arguments.solver);
  const std::vector<WarmOperation> all = warm_up_operations(arguments.operation, device);
  if (device.is_cpu() && prints)
    std::cout << arguments.operation << ": nothing to compile on the CPU\n";
  std::uint64_t compiled = 0;
  for (const WarmOperation& made : all) {
    compiled += made.compiled;
    if (prints) std::cout << text_of(made, device.name()) << std::flush;
    ordered_json row = {{"operation", made.operation},
                        {"device", device.name()},
                        {"shaders_compiled", made.compiled},
                        {"shader_cache_hits", made.from_disk},
                        {"seconds", made.seconds}};
    if (!made.problem.empty()) row["problem"] = made.problem;
    report["operations"].push_back(std::move(row));
  }
  return compiled;
}

void run_warm_up(const WarmUpArguments& arguments) {
  std::vector<std::string> names;
  if (!arguments.problem.name.empty()) names.push_back(arguments.problem.name);
  names.insert(names.end(), arguments.more.begin(), arguments.more.end());
  if (names.empty() && arguments.operation.empty())
    throw Error(ErrorCode::InvalidArgument,
                "warm-up: expected a problem or --operation, got neither");
  ordered_json report = {{"problems", ordered_json::array()}};
  std::uint64_t compiled = 0;
  if (!arguments.operation.empty()) compiled += run_operations(arguments, report);
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (Interrupts::came()) break;
    const std::string& name = names[k];
    ProblemArguments one = arguments.problem;
    one.name = name;
    if ((name == "bal" || is_photo_model(name) || name == "pose-graph") && k + 1 < names.size())
      one.file = names[++k];
    const std::unique_ptr<NamedProblem> named = make_problem(one);
    const WarmUp made = warm_up(named->problem(), options_of(arguments.solver, *named));
    compiled += made.shaders_compiled;
    if (!arguments.quiet && arguments.json != "-") std::cout << text_of(name, made) << std::flush;
    report["problems"].push_back(json_of(name, made));
  }
  report["shaders_compiled"] = compiled;
  if (Interrupts::came()) report["interrupted"] = Interrupts::message();
  write_json(arguments.json, report);
  end_if_interrupted("what was compiled so far is on disk");
}

}  // namespace

void add_warm_up(Command app) {
  auto arguments = std::make_shared<WarmUpArguments>();
  Command command = app.subcommand(
      "warm-up", "Compiles what solves of problems will need, so that they find it on disk");
  add_problem_options(command, arguments->problem, {.required = false, .takes_file = false});
  command.option("more", &arguments->more,
                 "further problems, by the same options; bal, colmap, openmvg and pose-graph are "
                 "followed by their file");
  command.option("--operation", &arguments->operation,
                 "kernels of arrays and tensors, too: of one operation (bench ops names them), or "
                 "all; then no problem is needed");
  add_data_option(command, arguments->problem);
  add_generator_options(command, arguments->problem);
  add_backend_options(command, arguments->solver);
  add_solve_options(command, arguments->solver);
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.flag("--quiet", arguments->quiet, "print nothing");
  command.callback(noting_signals([arguments] { run_warm_up(*arguments); }));
}

}  // namespace topograd::command
