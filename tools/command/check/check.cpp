// topograd check: self-tests of ops, random programs and gradients; results of other processes.
#include "../arguments/commands.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/op.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../check/faults/corruption.hpp"
#include "../../check/programs/gradients.hpp"
#include "../../check/programs/ops.hpp"
#include "../../check/programs/random.hpp"
#include "../../check/routing/routing.hpp"
#include "../arguments/output.hpp"
#include "../input/named_problem.hpp"
#include "check_scaling.hpp"
#include "checks.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

struct CheckArguments {
  std::string backend, precision, float64, json, mesh, only;
  check::Options options;
  bool pairs = false;  // pairs of ops
  std::uint64_t operands = check::kDefaultOperands;
  std::uint64_t every = 1, triples = check::PairsOptions{}.triples;

  check::Options parsed() const {
    check::Options out = options;
    if (!backend.empty()) out.backend = parse_backend(backend);
    if (!precision.empty()) out.precision = parse_precision(precision);
    if (!float64.empty()) out.float64 = parse_float64(float64);
    return out;
  }
};

/// Numbers as JSON; infinities, which JSON lacks, become text.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

ordered_json describe(const check::Worst& worst) {
  ordered_json json;
  json["ulp"] = number(worst.ulp);
  json["at"] = ordered_json::array();
  for (const double operand : worst.at) json["at"].push_back(number(operand));
  json["got"] = number(worst.got);
  json["expected"] = number(worst.expected);
  json["broken"] = worst.broken;
  return json;
}

ordered_json head(const char* check, const CheckArguments& arguments, bool broken) {
  ordered_json report;
  report["check"] = check;
  report["broken"] = broken;
  report["seed"] = arguments.options.seed;
  return report;
}

void check_pairs(const CheckArguments& arguments) {
  const check::PairsReport found =
      check::check_pairs({arguments.parsed(), arguments.every, arguments.triples});
  ordered_json report = head("pairs", arguments, !found.failures.empty());
  report["pairs"] = found.pairs;
  report["triples"] = found.triples;
  report["compared"] = found.compared;
  report["undecided"] = found.undecided;
  report["wrong"] = found.wrong;
  report["failures"] = ordered_json::array();
  std::string text;
  for (const check::PairFailure& f : found.failures) {
    report["failures"].push_back({{"backend", f.backend},
                                  {"device", f.device},
                                  {"precision", name(f.precision)},
                                  {"composition", f.number.composition},
                                  {"what", f.number.what},
                                  {"at", ordered_json::array()},
                                  {"got", number(f.number.got)},
                                  {"expected", number(f.number.expected)}});
    for (const double x : f.number.at) report["failures"].back()["at"].push_back(number(x));
    text += f.backend + " " + std::string(name(f.precision)) + ": " + f.number.message() + "\n";
  }
  text += std::to_string(found.pairs) + " pairs and " + std::to_string(found.triples) +
          " triples of ops, " + std::to_string(found.compared) + " numbers compared, " +
          std::to_string(found.undecided) + " undecided, " + std::to_string(found.wrong.size()) +
          " compositions wrong\n";
  finish_check(arguments.json, text, report);
}

void check_ops(const CheckArguments& arguments) {
  if (!arguments.only.empty() && arguments.only != check::kBasicOperations &&
      !ir::find_op(arguments.only))
    throw Error(ErrorCode::InvalidArgument,
                "--op: expected the name of an op or basic, got \"" + arguments.only + "\"");
  const check::OpsReport found =
      check::check_ops(arguments.parsed(), arguments.operands, arguments.only);
  ordered_json report = head("ops", arguments, found.broken > 0);
  std::string text;
  if (!found.results.empty())
    text = "op           backend prec    bound     value derivative  (ulp, largest)\n";
  for (const check::OpResult& r : found.results) {
    report["results"].push_back({{"op", r.op},
                                 {"backend", r.backend},
                                 {"device", r.device},
                                 {"precision", name(r.precision)},
                                 {"points", r.points},
                                 {"bound_ulp", r.bound},
                                 {"value", describe(r.value)},
                                 {"derivative", describe(r.derivative)}});
    char line[160];
    std::snprintf(line, sizeof line, "%-12s %-7s %-4s ", r.op.c_str(), r.backend.c_str(),
                  name(r.precision).data());
    text += line;
    if (!r.refused.empty()) {
      report["results"].back()["refused"] = r.refused;
      text += " refused: " + r.refused + "\n";
      continue;
    }
    std::snprintf(line, sizeof line, "%8.3g  %8.3g   %8.3g%s\n", r.bound, r.value.ulp,
                  r.derivative.ulp, r.value.broken + r.derivative.broken > 0 ? "  BROKEN" : "");
    text += line;
  }
  report["operands"] = found.operands;
  report["arithmetic"] = ordered_json::array();
  if (!found.arithmetic.empty())
    text += "operation    backend  float64    differences to the host in " +
            std::to_string(found.operands) + " operands\n";
  for (const check::ArithmeticResult& r : found.arithmetic) {
    const Float64 float64 = r.emulated ? Float64::emulated : Float64::native;
    report["arithmetic"].push_back({{"op", r.op},
                                    {"backend", r.backend},
                                    {"device", r.device},
                                    {"float64", name(float64)},
                                    {"differences", r.differences},
                                    {"at", ordered_json::array()},
                                    {"got", number(r.got)},
                                    {"expected", number(r.expected)}});
    for (const double x : r.at) report["arithmetic"].back()["at"].push_back(number(x));
    char line[160];
    std::snprintf(line, sizeof line, "%-12s %-8s %-10s %llu%s\n", r.op.c_str(), r.backend.c_str(),
                  name(float64).data(), static_cast<unsigned long long>(r.differences),
                  r.differences > 0 ? "  BROKEN" : "");
    text += line;
  }
  finish_check(arguments.json, text, report);
}

void check_random(const CheckArguments& arguments) {
  const check::RandomReport found = check::check_random(arguments.parsed());
  ordered_json report = head("random", arguments, found.broken());
  report["programs"] = found.programs;
  report["nodes"] = found.nodes;
  report["end_to_end"] = found.end_to_end;
  report["undecided"] = found.undecided;
  report["undecided_share"] = found.undecided_share;
  report["rarest_op"] = found.rarest_op;
  report["rarest_op_share"] = found.rarest_op_share;
  report["rarest_special_share"] = found.rarest_special_share;
  report["failures"] = found.failures_in_all;
  report["shown"] = ordered_json::array();
  std::string text = std::to_string(found.programs) + " programs, " + std::to_string(found.nodes) +
                     " nodes compared, " + std::to_string(found.undecided) + " undecided, " +
                     std::to_string(found.failures_in_all) + " failures\n";
  for (const check::Failure& f : found.failures) {
    report["shown"].push_back({{"seed", f.seed},
                               {"kind", f.kind},
                               {"backend", f.backend},
                               {"device", f.device},
                               {"precision", name(f.precision)},
                               {"message", f.message},
                               {"program", f.program}});
    text += "\nseed " + std::to_string(f.seed) + ", " + f.kind + ", " + f.backend + " " +
            std::string(name(f.precision)) + ": " + f.message + "\n" + f.program;
  }
  finish_check(arguments.json, text, report);
}

void check_gradients(const CheckArguments& arguments) {
  const check::Options options = arguments.parsed();
  std::vector<check::GradientResult> results;
  for (const ProblemKind& kind : problem_kinds()) {
    if (Interrupts::came()) break;
    constexpr std::uint32_t kWidth = 12, kSubdivisions = 2;
    ProblemArguments problem{.name = kind.name, .width = kWidth};
    problem.bundle = {.cameras = 6, .points = 60, .observations = 300};
    problem.set = kind.set;
    if (kind.needs_mesh && arguments.mesh.empty()) problem.icosphere = kSubdivisions;
    if (kind.needs_mesh) problem.mesh = arguments.mesh;
    const auto named = make_problem(problem);
    const std::string label = kind.set.empty() ? kind.name : kind.name + " " + kind.set;
    for (check::GradientResult& result : check_gradient(label, named->problem(), options))
      results.push_back(std::move(result));
  }
  const auto broken = [](const check::GradientResult& r) { return r.broken(); };
  ordered_json report = head("gradients", arguments, std::ranges::any_of(results, broken));
  std::string text = "problem                     backend prec  difference     bound\n";
  for (const check::GradientResult& r : results) {
    report["results"].push_back({{"problem", r.problem},
                                 {"backend", r.backend},
                                 {"device", r.device},
                                 {"precision", name(r.precision)},
                                 {"unknowns", r.unknowns},
                                 {"relative_difference", number(r.relative_difference)},
                                 {"bound", r.bound}});
    char line[160];
    std::snprintf(line, sizeof line, "%-27s %-7s %-4s  %10.3g  %8.3g%s\n", r.problem.c_str(),
                  r.backend.c_str(), name(r.precision).data(), r.relative_difference, r.bound,
                  r.broken() ? "  BROKEN" : "");
    text += line;
  }
  finish_check(arguments.json, text, report);
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

/// Prints the rows of arrays and tensors, and adds them to the report.
std::string text_of_operations(const check::RoutingReport& found, ordered_json& rows) {
  if (found.operations.empty()) return {};
  std::string text =
      "operation                       size        cpu us     device us   on cpu  on device\n";
  char line[160];
  for (const check::OperationTruth& t : found.operations) {
    rows.push_back({{"operation", t.name},
                    {"size", t.size},
                    {"cpu_us", t.cpu_us},
                    {"device_us", t.device_us},
                    {"on_cpu", t.on_cpu},
                    {"on_device", t.on_device},
                    {"expected_cpu_us", t.expected_cpu_us},
                    {"expected_device_us", t.expected_device_us}});
    std::snprintf(line, sizeof line, "%-25s %10llu  %12.1f  %12.1f  %7llu  %9llu\n", t.name.c_str(),
                  static_cast<unsigned long long>(t.size), t.cpu_us, t.device_us,
                  static_cast<unsigned long long>(t.on_cpu),
                  static_cast<unsigned long long>(t.on_device));
    text += line;
  }
  std::snprintf(line, sizeof line,
                "arrays and tensors: %llu calls, %.1f %% right, %.1f %% over the oracle, "
                "%llu explored\n",
                static_cast<unsigned long long>(found.operations_calls),
                100 * found.operations_right_share.value_or(1),
                100 * found.operations_over_oracle.value_or(0),
                static_cast<unsigned long long>(found.operations_explored));
  return text + line;
}

/// Prints the rows of two simulated devices, and adds them to the report.
std::string text_of_schedules(const check::RoutingReport& found, ordered_json& rows) {
  if (found.schedules.empty()) return {};
  std::string text = "two simulated devices                     us       best us  over best\n";
  char line[160];
  for (const check::ScheduleTruth& t : found.schedules) {
    rows.push_back({{"tasks", t.what},
                    {"us", t.us},
                    {"best_us", t.best_us},
                    {"over_best", t.over_best()},
                    {"first_items", t.first_items},
                    {"second_items", t.second_items}});
    std::snprintf(line, sizeof line, "%-34s %10.1f  %10.1f  %7.1f %%\n", t.what.c_str(), t.us,
                  t.best_us, 100 * t.over_best());
    text += line;
  }
  return text;
}

struct RoutingArguments {
  std::string backend, json, training;
  check::RoutingOptions options;
};

void check_routing(const RoutingArguments& arguments) {
  check::RoutingOptions options = arguments.options;
  if (!arguments.backend.empty()) options.backend = parse_backend(arguments.backend);
  const check::RoutingReport found = check::check_routing(options);
  ordered_json report = {{"check", "routing"},
                         {"broken", found.broken()},
                         {"device", found.device},
                         {"note", found.note},
                         {"tasks", found.tasks},
                         {"right_share", or_null(found.right_share)},
                         {"time_over_oracle", or_null(found.time_over_oracle)},
                         {"decision_ns", found.decision_ns},
                         {"median_task_us", found.median_task_us},
                         {"explored", found.explored},
                         {"wrong_results", found.wrong_results},
                         {"results", ordered_json::array()},
                         {"operations_right_share", or_null(found.operations_right_share)},
                         {"operations_over_oracle", or_null(found.operations_over_oracle)},
                         {"operations_calls", found.operations_calls},
                         {"operations_explored", found.operations_explored},
                         {"operations", ordered_json::array()},
                         {"schedules", ordered_json::array()},
                         {"wrong", ordered_json::array()}};
  std::string text = "operations       items        cpu us     device us   on cpu  on device\n";
  char line[160];
  for (const check::RoutingTruth& t : found.truths) {
    report["results"].push_back({{"operations", t.operations},
                                 {"size", t.size},
                                 {"cpu_us", t.cpu_us},
                                 {"device_us", t.device_us},
                                 {"on_cpu", t.on_cpu},
                                 {"on_device", t.on_device}});
    std::snprintf(line, sizeof line, "%10llu  %10llu  %12.1f  %12.1f  %7llu  %9llu\n",
                  static_cast<unsigned long long>(t.operations),
                  static_cast<unsigned long long>(t.size), t.cpu_us, t.device_us,
                  static_cast<unsigned long long>(t.on_cpu),
                  static_cast<unsigned long long>(t.on_device));
    text += line;
  }
  std::snprintf(line, sizeof line,
                "%llu tasks, %.1f %% right, %.1f %% over the oracle, %llu explored, %.0f ns a "
                "decision%s\n",
                static_cast<unsigned long long>(found.tasks), 100 * found.right_share.value_or(1),
                100 * found.time_over_oracle.value_or(0),
                static_cast<unsigned long long>(found.explored), found.decision_ns,
                found.broken() ? "  BROKEN" : "");
  text += found.device.empty() ? "no device, nothing to decide: " + found.note + "\n" : line;
  text += text_of_operations(found, report["operations"]);
  text += text_of_schedules(found, report["schedules"]);
  for (const check::WrongDecision& w : found.wrong) {
    report["wrong"].push_back({{"name", w.name},
                               {"size", w.size},
                               {"call", w.call},
                               {"reason", w.reason},
                               {"on_device", w.on_device},
                               {"cpu_us", w.cpu_us},
                               {"device_us", w.device_us},
                               {"expected_cpu_us", w.expected_cpu_us},
                               {"expected_device_us", w.expected_device_us}});
  }
  finish_check(arguments.json, text, report, [&](Outputs& outputs) {
    outputs.write(arguments.training,
                  [&] { return training_text(arguments.training, found.learned); });
  });
}

struct CorruptionArguments {
  std::string backend, json;
  check::CorruptionOptions options;
};

void check_corruption(const CorruptionArguments& arguments) {
  check::CorruptionOptions options = arguments.options;
  if (!arguments.backend.empty()) options.backend = parse_backend(arguments.backend);
  const check::CorruptionReport found = check::check_corruption(options);
  const ordered_json report = {{"check", "corruption"},
                               {"broken", found.broken()},
                               {"rounds", found.rounds},
                               {"injections", found.injections},
                               {"cold_starts", found.cold_starts},
                               {"wrong", found.wrong},
                               {"uncounted", found.uncounted},
                               {"errors", found.errors},
                               {"reads_beside_writers", found.reads_beside_writers},
                               {"writes_on_full_disk", found.writes_on_full_disk},
                               {"failures", found.failures}};
  std::string text = std::to_string(found.injections) + " injections, " +
                     std::to_string(found.cold_starts) + " cold starts, " +
                     std::to_string(found.wrong) + " wrong, " + std::to_string(found.errors) +
                     " errors\n";
  for (const std::string& failure : found.failures) text += failure + "\n";
  finish_check(arguments.json, text, report);
}

void add_corruption(Command check) {
  auto arguments = std::make_shared<CorruptionArguments>();
  Command command =
      check.subcommand("corruption", "Damaged cache and model files must be cold starts");
  command.option("--backend", &arguments->backend,
                 "cpu: the executor's model; vulkan: the blob cache; otherwise both");
  command.option("--seconds", &arguments->options.seconds,
                 "repeats the rounds for so long, with other bits and places; 0: one round");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { check_corruption(*arguments); }));
}

void add_routing(Command check) {
  auto arguments = std::make_shared<RoutingArguments>();
  Command command =
      check.subcommand("routing", "Tasks of many sizes against the faster side of each");
  command.option("--backend", &arguments->backend,
                 "vulkan also admits software devices; automatic admits them if they are named");
  command.option("--device", &arguments->options.device, "index or name of a Vulkan device");
  command.option("--seconds", &arguments->options.seconds, "seconds for the whole check");
  command.option("--seed", &arguments->options.seed, "seed of the random tasks");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.output("--training-data", &arguments->training,
                 "file for the runs behind first guesses: CSV, or JSON if it ends in .json");
  command.callback(noting_signals([arguments] { check_routing(*arguments); }));
}

void add_options(Command command, CheckArguments& arguments) {
  command.option("--backend", &arguments.backend,
                 "cpu or vulkan; otherwise the CPU, and the device if there is one");
  command.option("--precision", &arguments.precision, "f32 or f64; otherwise both");
  command.option("--device", &arguments.options.device, "index or name of a Vulkan device");
  command.option("--float64", &arguments.float64, "f64 of the device; emulated is by integers")
      .choices(names_of<Float64>());
  command
      .option("--count", &arguments.options.count,
              "random points of each op (2000), random programs (200)")
      .range(1, std::numeric_limits<int>::max());
  command.option("--seed", &arguments.options.seed, "seed of everything random");
  command.option("--mesh", &arguments.mesh, "gradients: mesh file; otherwise an icosphere");
  command.output("--json", &arguments.json, "file for the report, - for standard output");
}

void add_ops(Command check) {
  auto arguments = std::make_shared<CheckArguments>();
  Command command = check.subcommand("ops", "Largest error of each op, value and derivative");
  add_options(command, *arguments);
  command.option("--op", &arguments->only,
                 "one op by its name, or basic: the basic operations of f64 alone (all)");
  command.flag("--pairs", arguments->pairs,
               "all ordered pairs of ops, and a sample of triples, instead of single ops");
  command.option("--operands", &arguments->operands,
                 "operands for which basic operations of f64 must equal the host's");
  command.option("--every", &arguments->every, "with --pairs: only every N-th pair");
  command.option("--triples", &arguments->triples, "with --pairs: number of random triples");
  command.callback(noting_signals(
      [arguments] { arguments->pairs ? check_pairs(*arguments) : check_ops(*arguments); }));
}

void add_one(Command check, const char* name, const char* what,
             void (*run)(const CheckArguments& arguments)) {
  auto arguments = std::make_shared<CheckArguments>();
  Command command = check.subcommand(name, what);
  add_options(command, *arguments);
  command.callback(noting_signals([arguments, run] { run(*arguments); }));
}

}  // namespace

void add_check(Command app) {
  Command command = app.subcommand("check", "Self-tests on this machine's devices");
  command.require_subcommand();
  add_ops(command);
  add_one(command, "random", "Random programs against the evaluator", check_random);
  add_one(command, "gradients", "Gradients of whole problems against the evaluator",
          check_gradients);
  add_routing(command);
  add_corruption(command);
  add_check_faults(command);
  add_check_soak(command);
  add_check_scaling(command);
  add_check_compile(command);
  add_check_start(command);
  add_check_repeat(command);
  add_check_view(command);
}

ordered_json in_a_process(const std::string& check, const std::function<ordered_json()>& work,
                          double seconds) {
  std::string said;
  const platform::ChildEnd end = platform::run_child(
      [&](const std::function<void(const std::string&)>& tell) {
        try {
          tell(work().dump());
        } catch (const Error& error) {
          tell(ordered_json{{"code", static_cast<int>(error.code())}, {"error", error.what()}}
                   .dump());
        }
      },
      [&](const std::string& line) { said = line; }, seconds);
  if (!end.well() || said.empty())
    throw Error(ErrorCode::Internal, check + ": a process ended with status " +
                                         std::to_string(end.status) + ", signal " +
                                         std::to_string(end.signal));
  ordered_json out = ordered_json::parse(said);
  if (out.is_object() && out.contains("error"))
    throw Error(static_cast<ErrorCode>(out["code"].get<int>()), out["error"].get<std::string>());
  return out;
}

}  // namespace topograd::command
