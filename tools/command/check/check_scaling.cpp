// topograd check scaling: times of many ranks, predicted and compared with measured ones.
#include "check_scaling.hpp"

#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../input/named_problem.hpp"

#include "../../../ir/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

ScalingMeter* meter_of_program = nullptr;

struct ScalingArguments {
  std::vector<std::string> names;
  ProblemArguments problem;
  std::uint32_t icosphere = 5;
  int most_ranks = 1024, iterations = 100;
  std::string json;
};

/// Meshes have borders like lines. Points of a scene are numbered at random, so that every part
/// borders on every other.
const std::vector<ScaledProblem> kKinds = {
    {"springs", nullptr, 0.5}, {"arap", nullptr, 0.5}, {"bundle", nullptr, 1}};

std::string ms(const ordered_json& us) {
  char text[32];
  std::snprintf(text, sizeof text, "%11.3f", us.get<double>() / 1e3);
  return text;
}

std::string text_of_scaling(const ordered_json& report) {
  std::string text;
  char line[200];
  const ordered_json& network = report["network"];
  if (network["latency_us"] != nullptr) {
    std::snprintf(line, sizeof line, "between ranks here: %.2f us, %.2f GB/s\n",
                  network["latency_us"].get<double>(), network["gb_per_s"].get<double>());
    text += line;
  }
  for (const ordered_json& row : report["problems"]) {
    text += row["problem"].get<std::string>() + ": " +
            std::to_string(row["unknowns"].get<std::uint64_t>()) + " unknowns, " +
            std::to_string(row["residuals"].get<std::uint64_t>()) + " residuals, " +
            std::to_string(row["chunks"].get<std::uint64_t>()) + " chunks\n";
    for (const ordered_json& m : row["measured"]) {
      std::snprintf(line, sizeof line,
                    "  %d ranks here: an iteration takes %s ms, predicted %s ms (%.2f times)%s\n",
                    m["ranks"].get<int>(), ms(m["iteration_us"]).c_str(),
                    ms(m["predicted_iteration_us"]).c_str(), m["ratio"].get<double>(),
                    m["fitted"].get<bool>()   ? ", from which its rates come"
                    : m["broken"].get<bool>() ? "  BROKEN"
                                              : "");
      text += line;
    }
    for (const ordered_json& curve : row["curves"]) {
      text += "  " + curve["machine"].get<std::string>() + ", " +
              curve["scaling"].get<std::string>() + " scaling: efficient to " +
              std::to_string(curve["efficient_ranks"].get<int>()) + " ranks, fastest with " +
              std::to_string(curve["fastest_ranks"].get<int>()) + ", limited by " +
              curve["limit"].get<std::string>() +
              "\n   ranks  iteration ms     step ms  efficiency\n";
      for (const ordered_json& p : curve["points"]) {
        std::snprintf(line, sizeof line, "  %6d   %s %s      %6.3f\n", p["ranks"].get<int>(),
                      ms(p["iteration_us"]).c_str(), ms(p["step_us"]).c_str(),
                      p["efficiency"].get<double>());
        text += line;
      }
    }
  }
  return text;
}

std::vector<ScaledProblem> chosen(const ScalingArguments& arguments) {
  if (arguments.names.empty()) return kKinds;
  std::vector<ScaledProblem> out;
  for (const std::string& name : arguments.names) {
    const auto at = std::ranges::find(kKinds, name, &ScaledProblem::name);
    if (at == kKinds.end())
      throw Error(ErrorCode::InvalidArgument,
                  "check scaling: expected springs, arap or bundle, got " + name);
    out.push_back(*at);
  }
  return out;
}

void run_scaling(const ScalingArguments& arguments) {
  if (meter_of_program == nullptr)
    throw Error(
        ErrorCode::Unsupported,
        "check scaling: expected the program topograd-distributed beside topograd; build it "
        "with -DTOPOGRAD_DISTRIBUTED=ON");
  if (!std::has_single_bit(static_cast<unsigned>(arguments.most_ranks)))
    throw Error(ErrorCode::InvalidArgument,
                "check scaling: expected a power of two for --ranks, got " +
                    std::to_string(arguments.most_ranks));
  std::vector<ScaledProblem> problems = chosen(arguments);
  std::vector<std::unique_ptr<NamedProblem>> made;
  for (ScaledProblem& problem : problems) {
    ProblemArguments wanted = arguments.problem;
    wanted.name = problem.name;
    if (problem.name == "arap" && wanted.mesh.empty()) wanted.icosphere = arguments.icosphere;
    made.push_back(make_problem(wanted));
    problem.problem = &made.back()->problem();
  }
  ordered_json report = {{"check", "scaling"}, {"broken", false}};
  report.update(meter_of_program->measure(problems, arguments.most_ranks, arguments.iterations));
  for (const ordered_json& problem : report["problems"])
    for (const ordered_json& measured : problem["measured"])
      if (measured["broken"].get<bool>()) report["broken"] = true;
  if (meter_of_program->speaks()) finish_check(arguments.json, text_of_scaling(report), report);
}

}  // namespace

void set_scaling_meter(ScalingMeter* meter) { meter_of_program = meter; }

void add_check_scaling(Command check) {
  auto arguments = std::make_shared<ScalingArguments>();
  arguments->problem.width = 300;
  Command command = check.subcommand(
      "scaling", "Times of up to 1024 ranks, predicted, and compared with those of mpirun's ranks");
  command.option("problems", &arguments->names, "springs, arap or bundle; otherwise all three");
  command.option("--width", &arguments->problem.width,
                 "springs: vertices along a side of the grid");
  command.option("--icosphere", &arguments->icosphere, "arap: subdivisions of an icosahedron");
  command.option("--mesh", &arguments->problem.mesh, "arap: a mesh instead of an icosphere");
  command.option("--cameras", &arguments->problem.bundle.cameras, "bundle: number of cameras");
  command.option("--points", &arguments->problem.bundle.points, "bundle: number of points");
  command.option("--observations", &arguments->problem.bundle.observations,
                 "bundle: number of observations");
  command.option("--ranks", &arguments->most_ranks, "most ranks of the predictions").range(1, 1024);
  command
      .option("--iterations", &arguments->iterations, "iterations of conjugate gradients in a step")
      .range(2, 10000);
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback([arguments] { run_scaling(*arguments); });
}

}  // namespace topograd::command
