// topograd check faults and soak: failures and endurance.
#include "checks.hpp"

#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"

#include "../../check/faults/faults.hpp"
#include "../../check/faults/soak.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

struct FaultsArguments {
  std::string backend, json;
  check::FaultOptions options;
};

ordered_json describe(const check::FaultReport& found) {
  ordered_json report = {{"check", "faults"},
                         {"broken", found.broken()},
                         {"device", found.device},
                         {"note", found.note},
                         {"precision", name(found.precision)},
                         {"planned", found.planned},
                         {"injections", found.injections},
                         {"right_answers", found.right_answers},
                         {"typed_errors", found.typed_errors},
                         {"wrong", found.wrong},
                         {"crashed", found.crashed},
                         {"leaked", found.leaked},
                         {"miscounted", found.miscounted},
                         {"fallbacks", found.fallbacks},
                         {"not_reached", found.not_reached},
                         {"calls", found.calls},
                         {"lost_solves", ordered_json::array()},
                         {"failures", found.failures}};
  for (const check::LostSolve& solve : found.lost) {
    report["lost_solves"].push_back({{"steps", solve.steps},
                                     {"steps_on_device", solve.steps_on_device},
                                     {"repeated_steps", solve.repeated_steps},
                                     {"right", solve.right}});
  }
  return report;
}

std::string text_of(const check::FaultReport& found) {
  const auto n = [](std::uint64_t count) { return std::to_string(count); };
  if (!found.note.empty()) return "0 injections: " + found.note + "\n";
  std::string text =
      n(found.injections) + " of " + n(found.planned) + " injections into " +
      n(found.calls.size()) + " calls: " + n(found.right_answers) + " right answers (" +
      n(found.fallbacks) + " fallbacks counted), " + n(found.typed_errors) + " typed errors, " +
      n(found.wrong) + " wrong, " + n(found.crashed) + " crashed, " + n(found.leaked) +
      " leaked, " + n(found.miscounted) + " miscounted; " + n(found.not_reached) + " not reached\n";
  for (const check::LostSolve& solve : found.lost) {
    text += "device lost after " + n(solve.steps_on_device) + " of " + n(solve.steps) + " steps, " +
            n(solve.repeated_steps) + " repeated: " + (solve.right ? "right" : "WRONG") + "\n";
  }
  for (const std::string& failure : found.failures) text += failure + "\n";
  return text;
}

void run_faults(const FaultsArguments& arguments) {
  check::FaultOptions options = arguments.options;
  if (!arguments.backend.empty()) options.backend = parse_backend(arguments.backend);
  const check::FaultReport found = check::check_faults(options);
  finish_check(arguments.json, text_of(found), describe(found));
}

struct SoakArguments {
  std::string backend, json;
  check::SoakOptions options;
};

std::string text_of(const check::SoakReport& found) {
  const auto n = [](std::uint64_t count) { return std::to_string(count); };
  char line[160];
  std::snprintf(line, sizeof line, "%.0f s: ", found.seconds);
  std::string text = line + n(found.solves) + " solves of " + n(found.steps) + " steps, " +
                     n(found.evaluations) + " evaluations and " + n(found.tasks) + " tasks in " +
                     n(found.rounds) + " rounds, device opened " + n(found.openings) + " times, " +
                     n(found.wrong) + " wrong\n";
  for (const check::SoakFigure& figure : found.figures) {
    std::snprintf(line, sizeof line, "%-16s %12llu -> %12llu  %+.2f %%%s\n", figure.name.c_str(),
                  static_cast<unsigned long long>(figure.first),
                  static_cast<unsigned long long>(figure.last), 100 * figure.growth(),
                  figure.broken() ? "  BROKEN" : "");
    text += line;
  }
  return text;
}

ordered_json describe(const check::SoakReport& found) {
  ordered_json report = {{"check", "soak"},
                         {"broken", found.broken()},
                         {"device", found.device},
                         {"precision", name(found.precision)},
                         {"seconds", found.seconds},
                         {"rounds", found.rounds},
                         {"solves", found.solves},
                         {"steps", found.steps},
                         {"evaluations", found.evaluations},
                         {"tasks", found.tasks},
                         {"openings", found.openings},
                         {"wrong", found.wrong}};
  for (const check::SoakFigure& figure : found.figures) {
    report[figure.name] = {{"first", figure.first},
                           {"last", figure.last},
                           {"growth", figure.growth()},
                           {"broken", figure.broken()}};
  }
  return report;
}

void run_soak(const SoakArguments& arguments) {
  check::SoakOptions options = arguments.options;
  if (!arguments.backend.empty()) options.backend = parse_backend(arguments.backend);
  const check::SoakReport found = check::check_soak(options);
  finish_check(arguments.json, text_of(found), describe(found));
}

}  // namespace

void add_check_faults(Command check) {
  auto arguments = std::make_shared<FaultsArguments>();
  Command command = check.subcommand("faults", "Every driver call that can fail is made to fail");
  command.option("--backend", &arguments->backend,
                 "automatic or vulkan; otherwise both; with cpu nothing can fail");
  command.flag("--full", arguments->options.full,
               "every use of each call; otherwise the first, middle and last one");
  command.option("--device", &arguments->options.device, "index or name of a Vulkan device");
  command.option("--seconds", &arguments->options.seconds,
                 "as many injections as fit, in a random order; 0: all of them");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run_faults(*arguments); }));
}

void add_check_soak(Command check) {
  auto arguments = std::make_shared<SoakArguments>();
  Command command = check.subcommand("soak", "Solves without a pause; nothing may grow");
  command.option("--backend", &arguments->backend,
                 "cpu or vulkan; otherwise the CPU, and the device if there is one");
  command.option("--device", &arguments->options.device, "index or name of a Vulkan device");
  command.option("--seconds", &arguments->options.seconds, "seconds of solving");
  command.option("--open-every", &arguments->options.open_every,
                 "rounds after which the device is opened again; 0: never");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run_soak(*arguments); }));
}

}  // namespace topograd::command
