// topograd bench: times of a problem's evaluations and of a step.
#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/telemetry.hpp"
#include "bench_report.hpp"
#include "bench_trace.hpp"
#include "ops/bench_ops.hpp"

#include "../../../solver/interrupts.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <optional>

namespace topograd::command {
namespace {

constexpr std::uint64_t kDefaultTopologies = 100;

struct AllArguments {
  BenchArguments bench;
  std::string json, metrics;
  std::optional<std::uint64_t> count;
  std::uint64_t seed = 1;
  bool device_only = false, claims = false, shapes = false;
  std::string claim;
  StatedWatts watts;
  std::optional<int> steps;
};

nlohmann::ordered_json run(const AllArguments& a) {
  const ProblemArguments& problem = a.bench.problem;
  if (problem.name == "topologies")
    return run_bench_topologies({.count = a.count.value_or(kDefaultTopologies),
                                 .seed = a.seed,
                                 .samples = a.bench.samples,
                                 .solver = a.bench.solver});
  if (problem.name == "ops") {
    return run_bench_ops({.count = a.count,
                          .backend = a.bench.solver.backend,
                          .device = a.bench.solver.device,
                          .samples = a.bench.samples,
                          .cpu = !a.device_only,
                          .claims = a.claims,
                          .claim = a.claim,
                          .watts = a.watts,
                          .shapes = a.shapes,
                          .steps = a.steps});
  }
  if (problem.name == "trace") {
    return run_bench_trace({.width = problem.width,
                            .shuffle = problem.shuffle,
                            .count = a.count,
                            .samples = a.bench.samples,
                            .threads = a.bench.solver.threads.value_or(0),
                            .peers = a.bench.peers});
  }
  return run_bench(a.bench);
}

void print(const nlohmann::ordered_json& report) {
  for (const auto& [key, value] : report.items()) {
    std::cout << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump())
              << '\n';
  }
}

}  // namespace

void add_bench(Command app) {
  auto arguments = std::make_shared<AllArguments>();
  Command command = app.subcommand(
      "bench",
      "Times the evaluations of a problem, compiling of topologies, tracing, or operations");
  add_problem_options(command, arguments->bench.problem, {.on_grids = {"springs", "trace"}});
  add_data_option(command, arguments->bench.problem);
  add_place_options(command, arguments->bench.solver);
  add_bench_options(command, arguments->bench);
  command.option("--count", &arguments->count,
                 "bench topologies: different random trees (100); bench trace: residuals, "
                 "instead of those of --width; bench ops: elements, instead of 10^3 to 10^8");
  command.flag("--device-only", arguments->device_only, "bench ops: leave out the CPU");
  command.flag("--claims", arguments->claims,
               "bench ops: what others claim, against one CPU thread and all");
  command.option("--claim", &arguments->claim,
                 "bench ops --claims: only the rows whose names contain this");
  command.option("--cpu-watts", &arguments->watts.cpu,
                 "bench ops --claims: watts of the processor, for energy as watts times time");
  command.option("--device-watts", &arguments->watts.device,
                 "bench ops --claims: the same of the device");
  command.flag("--shapes", arguments->shapes,
               "bench ops: at fixed shapes instead; --count leaves out those of more elements");
  command.option("--steps", &arguments->steps,
                 "bench ops: only train a small network for so many steps, with its memory");
  command.option("--seed", &arguments->seed, "bench topologies: seed of the trees");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.output(
      "--metrics", &arguments->metrics,
      "file for what the executor counted: Prometheus text, or JSON if it ends in .json");
  command.callback(noting_signals([arguments] {
    nlohmann::ordered_json report = run(*arguments);
    if (Interrupts::came()) report["interrupted"] = Interrupts::message();
    if (arguments->json != "-") print(report);
    Outputs outputs;
    outputs.attempt([&] { write_json(arguments->json, report); });
    outputs.write(arguments->metrics, [&] { return metrics_text(arguments->metrics); });
    if (report.contains("plan"))
      outputs.write(arguments->bench.solver.plan_out,
                    [&] { return report["plan"].dump(2) + "\n"; });
    outputs.finish();
    end_if_interrupted("the report has what was measured so far");
  }));
}

}  // namespace topograd::command
