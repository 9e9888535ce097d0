// topograd check view: random drags in the live view; all frames are finite and nothing grows.
#include "checks.hpp"

#include "../../problems/mesh.hpp"
#include "../../view/film/film.hpp"
#include "../../view/film/measure.hpp"
#include "../../view/subjects/subjects.hpp"
#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"

#include "../../check/faults/soak.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

struct ViewCheckArguments {
  double seconds = 60;
  std::uint32_t icosphere = 3;
  std::uint64_t seed = 1;
  std::string json;
  SolverArguments solver;
};

std::string text_of(const ordered_json& report, const std::vector<check::SoakFigure>& figures) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%.0f s on %s: ", report["seconds"].get<double>(),
                report["backend"].get<std::string>().c_str());
  const auto n = [&](const char* key) { return std::to_string(report[key].get<std::uint64_t>()); };
  std::string text = line.data() + n("solves") + " solves of " + n("steps") + " steps, " +
                     n("drags") + " drags, " + n("shaders_compiled") + " shaders compiled, " +
                     n("nonfinite_frames") + " frames not finite\n";
  if (const auto message = report["message"].get<std::string>(); !message.empty())
    text += message + "\n";
  for (const check::SoakFigure& figure : figures) {
    std::snprintf(line.data(), line.size(), "%-16s %12llu -> %12llu  %+.2f %%%s\n",
                  figure.name.c_str(), static_cast<unsigned long long>(figure.first),
                  static_cast<unsigned long long>(figure.last), 100 * figure.growth(),
                  figure.broken() ? "  BROKEN" : "");
    text += line.data();
  }
  return text;
}

void run_view_check(const ViewCheckArguments& arguments) {
  // The first seconds compile.
  constexpr double kMostWarmUp = 10, kShare = 3;
  view::Subject subject = view::arap_subject(problems::icosphere(arguments.icosphere));
  const SolverOptions options = to_options(arguments.solver, subject.options);
  view::LiveSolver live(std::move(subject), {.solver = options});
  const double warm_up = std::min(kMostWarmUp, arguments.seconds / kShare);
  const view::Measured m = view::measure(live, {},
                                         {.seconds = arguments.seconds - warm_up,
                                          .warm_up_seconds = warm_up,
                                          .random = arguments.seed,
                                          .lists = false});
  const std::vector<check::SoakFigure> figures = {
      {"resident_bytes", m.thirds[1].resident, m.thirds[2].resident, check::kMostResidentGrowth},
      {"heap_bytes", m.thirds[1].heap, m.thirds[2].heap, check::kMostGrowth}};
  const std::string message = live.state()->message;
  const bool broken = m.nonfinite > 0 || m.compiled > 0 || m.solves == 0 || !message.empty() ||
                      std::ranges::any_of(figures, &check::SoakFigure::broken);
  ordered_json report = {{"check", "view"},
                         {"broken", broken},
                         {"seed", arguments.seed},
                         {"points", live.subject().shown},
                         {"backend", m.last->backend},
                         {"device", m.last->device},
                         {"seconds", m.seconds},
                         {"solves", m.solves},
                         {"steps", m.steps},
                         {"drags", m.drags},
                         {"shaders_compiled", m.compiled},
                         {"nonfinite_frames", m.nonfinite},
                         {"cost", m.last->cost},
                         {"message", message}};
  for (const check::SoakFigure& figure : figures) {
    report[figure.name] = {{"first", figure.first},
                           {"last", figure.last},
                           {"growth", figure.growth()},
                           {"broken", figure.broken()}};
  }
  finish_check(arguments.json, text_of(report, figures), report);
}

}  // namespace

void add_check_view(Command check) {
  auto arguments = std::make_shared<ViewCheckArguments>();
  Command command = check.subcommand(
      "view", "Drags a mesh at random: frames are finite, nothing is compiled, nothing grows");
  command.option("--seconds", &arguments->seconds, "seconds of dragging").range(1, 1000000);
  command.option("--icosphere", &arguments->icosphere, "subdivisions of the mesh").range(0, 8);
  command.option("--seed", &arguments->seed, "seed of the drags");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  add_backend_options(command, arguments->solver);
  command.callback(noting_signals([arguments] { run_view_check(*arguments); }));
}

}  // namespace topograd::command
