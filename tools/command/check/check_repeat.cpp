// topograd check repeat: gathering sums have the same bits in all processes, with any threads.
#include "checks.hpp"

#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/solver_arguments.hpp"
#include "../input/named_problem.hpp"
#include "check_portable.hpp"
#include "child.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/session.hpp"
#include "../../check/faults/folder.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kShuffleSeed = 1;

struct RepeatArguments {
  SolverArguments solver;
  std::uint32_t width = 150;  // smaller grids are not reordered
  int runs = 10, processes = 10;
  bool portable = false;
  std::string json;
};

std::string hash_of(std::span<const double> numbers) {
  return runtime::hex(runtime::hash_bytes(std::as_bytes(numbers)));
}

/// The distinct bits of gradient and JᵀJ·p at one point, in `runs` evaluations of one engine.
ordered_json evaluate(const RepeatArguments& arguments, const SolverOptions& options,
                      bool shuffled) {
  ProblemArguments wanted{.name = "springs"};
  wanted.width = arguments.width;
  if (shuffled) wanted.shuffle = kShuffleSeed;
  const std::unique_ptr<NamedProblem> named = make_problem(wanted);
  const ProblemModel model = make_model("check repeat", named->problem());
  const Session session = open_session(model, options, {.at_once = true});
  std::vector<double> x(model.model.scalars), p(x.size()), out(x.size());
  named->problem().read_x(x);
  for (std::size_t k = 0; k < p.size(); ++k) p[k] = std::cos(static_cast<double>(k));
  std::set<std::string> gradients, products;
  for (int run = 0; run < arguments.runs; ++run) {
    session.engine().set_point(x);
    session.engine().gradient(out);
    gradients.insert(hash_of(out));
    session.engine().jtjp(p, out);
    products.insert(hash_of(out));
  }
  return {{"backend", name(session.engine().backend())},
          {"device", session.engine().device()},
          {"order", shuffled ? "shuffled" : "sorted"},
          {"accumulation", session.engine().abilities().plans->accumulation()},
          {"precision", name(options.precision)},
          {"runs", arguments.runs},
          {"gradient", gradients},
          {"jtjp", products}};
}

std::vector<SolverOptions> places(const RepeatArguments& arguments) {
  const SolverArguments& asked = arguments.solver;
  std::vector<SolverOptions> out;
  const auto add = [&](const char* backend, const std::string& way) {
    if (!asked.backend.empty() && parse_backend(asked.backend) != parse_backend(backend)) return;
    SolverArguments given = asked;
    given.backend = backend;
    given.accumulate = way;
    out.push_back(resolved(to_options(given)));
  };
  add("cpu", "gather_store");  // the interpreter's only strategy
  if (!asked.accumulate.empty()) {
    add("vulkan", asked.accumulate);
  } else {
    for (const char* way : {"gather_recompute", "gather_store"}) add("vulkan", way);
  }
  return out;
}

/// The result of one process: a row for each backend, accumulation strategy and order.
ordered_json evaluate_all(const RepeatArguments& arguments, int threads) {
  ordered_json rows = ordered_json::array();
  for (SolverOptions& options : places(arguments)) {
    options.threads = threads;
    try {
      for (const bool shuffled : {false, true})
        rows.push_back(evaluate(arguments, options, shuffled));
    } catch (const Error& error) {
      const bool absent = error.code() == ErrorCode::NoLoader ||
                          error.code() == ErrorCode::NoDriver ||
                          error.code() == ErrorCode::NoDevice;
      if (!absent || !arguments.solver.backend.empty()) throw;
    }
  }
  return rows;
}

/// The rows of all processes, grouped by backend, accumulation strategy and order.
ordered_json measure(const RepeatArguments& arguments) {
  const check::Folder folder("repeat");
  std::map<std::tuple<std::string, std::string, std::string>, ordered_json> found;
  int processes = 0;
  for (; processes < arguments.processes && !Interrupts::came(); ++processes) {
    const int process = processes;
    const int threads = 1 + process % 2;
    // Every second process with the same number of threads must compile.
    const std::string cache = process % 4 < 2 ? std::to_string(process) : "kept";
    const ordered_json rows = in_a_process("check repeat", [&] {
      platform::set_environment("TOPOGRAD_CACHE_DIR", (folder.path() / cache).string());
      platform::set_environment("LP_NUM_THREADS", std::to_string(threads));
      return evaluate_all(arguments, threads);
    });
    for (const ordered_json& row : rows) {
      const auto [at, fresh] =
          found.try_emplace({row["backend"], row["accumulation"], row["order"]}, row);
      ordered_json& sum = at->second;
      if (fresh) continue;
      sum["runs"] = sum["runs"].get<int>() + row["runs"].get<int>();
      for (const char* kind : {"gradient", "jtjp"}) {
        auto all = sum[kind].get<std::set<std::string>>();
        all.merge(row[kind].get<std::set<std::string>>());
        sum[kind] = all;
      }
    }
  }
  ordered_json report = {{"check", "repeat"},
                         {"broken", false},
                         {"width", arguments.width},
                         {"processes", processes},
                         {"results", ordered_json::array()}};
  for (const auto& [key, row] : found) {
    if (row["gradient"].size() != 1 || row["jtjp"].size() != 1) report["broken"] = true;
    report["results"].push_back(row);
  }
  return report;
}

std::string text_of_hashes(const ordered_json& report) {
  std::string text;
  for (const ordered_json& row : report["results"]) {
    const std::size_t gradients = row["gradient"].size(), products = row["jtjp"].size();
    text += row["backend"].get<std::string>() + " " + row["precision"].get<std::string>() + " " +
            row["accumulation"].get<std::string>() + ", " + row["order"].get<std::string>() + ": " +
            std::to_string(row["runs"].get<int>()) + " runs in " +
            std::to_string(report["processes"].get<int>()) + " processes, gradient " +
            row["gradient"][0].get<std::string>() + ", JᵀJ·p " + row["jtjp"][0].get<std::string>();
    if (gradients + products != 2)
      text += "  BROKEN: " + std::to_string(gradients) + " and " + std::to_string(products) +
              " different ones";
    text += "\n";
  }
  return text;
}

void run(const RepeatArguments& arguments) {
  if (arguments.portable) {
    const ordered_json report = portable_report(arguments.solver.device);
    return finish_check(arguments.json, portable_text(report), report);
  }
  const ordered_json report = measure(arguments);
  finish_check(arguments.json, text_of_hashes(report), report);
}

}  // namespace

void add_check_repeat(Command check) {
  auto arguments = std::make_shared<RepeatArguments>();
  Command command =
      check.subcommand("repeat", "The same bits of gradient and JᵀJ·p in every process");
  command.option("--backend", &arguments->solver.backend,
                 "cpu or vulkan; otherwise the CPU, and the device if there is one");
  command.option("--precision", &arguments->solver.precision, "f32 or f64; otherwise f64");
  command.option("--device", &arguments->solver.device, "index or name of a Vulkan device");
  command.option(
      "--accumulate", &arguments->solver.accumulate,
      "accumulation strategy on the device; otherwise gather_recompute and gather_store");
  command.option("--width", &arguments->width, "vertices along a side of the grid of springs");
  command.option("--runs", &arguments->runs, "evaluations in each process").range(1, 1000);
  command
      .option("--processes", &arguments->processes,
              "number of processes, with one thread and two in turn")
      .range(2, 1000);
  command.flag("--portable", arguments->portable,
               "solve small problems with --bits portable by all instruction sets of the CPU, "
               "evaluate them on the device, and compare the bits with those of other machines");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run(*arguments); }));
}

}  // namespace topograd::command
