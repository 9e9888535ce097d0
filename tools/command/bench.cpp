// topograd bench: times of a problem's evaluations and of a step.
#include "command/bench_report.hpp"
#include "command/bench_topologies.hpp"
#include "command/commands.hpp"
#include "command/output.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace topograd::command {

void add_bench(CLI::App& app) {
  struct Arguments {
    BenchArguments bench;
    std::string json;
    std::uint64_t count = 100, seed = 1;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Times the evaluations of a problem, or compiling of topologies");
  add_problem_options(*command, arguments->bench.problem);
  add_data_option(*command, arguments->bench.problem);
  add_place_options(*command, arguments->bench.solver);
  command->add_option("--count", arguments->count,
                      "bench topologies: different random trees (100)");
  command->add_option("--seed", arguments->seed, "bench topologies: of the trees (1)");
  command->add_option("--json", arguments->json, "file for the report, - for standard output");
  command->callback([arguments] {
    const nlohmann::ordered_json report =
        arguments->bench.problem.name == "topologies"
            ? run_bench_topologies(arguments->count, arguments->seed, arguments->bench.solver)
            : run_bench(arguments->bench);
    if (arguments->json != "-") {
      for (const auto& [key, value] : report.items()) {
        std::cout << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump())
                  << '\n';
      }
    }
    write_json(arguments->json, report);
  });
}

}  // namespace topograd::command
