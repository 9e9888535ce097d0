// topograd check repeat: gathering sums have the same bits in all processes, with any threads.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/session.hpp"
#include "../../../solver/solve.hpp"
#include "../../check/faults/known_answers.hpp"
#include "../../problems/portable.hpp"
#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "checks.hpp"

namespace topograd::command {

struct PortableArguments {
  std::string device;                    ///< index or name of a Vulkan device; empty: as usual
  Float64 float64 = Float64::automatic;  ///< native or emulated: the device's alone; else both
  bool all = false;     ///< those whose kernels compile for minutes with emulated float64, too
  std::string problem;  ///< one of them; empty: all
};

/// Solves the portable problems with all instruction sets of this processor, with one thread and
/// two, then with the device if there is one, and compares all bits with the stored ones.
///
/// Throws Error{InvalidArgument} if there is no such problem.
nlohmann::ordered_json portable_report(const PortableArguments& arguments);
std::string portable_text(const nlohmann::ordered_json& report);

namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kShuffleSeed = 1;

struct RepeatArguments {
  SolverArguments solver;
  std::uint32_t width = 150;  // smaller grids are not reordered
  int runs = 10, processes = 10;
  bool portable = false, all = false;
  std::string problem, json;
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

std::vector<SolverOptions> devices(const RepeatArguments& arguments) {
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
  for (SolverOptions& options : devices(arguments)) {
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

void run_repeat(const RepeatArguments& arguments) {
  if (arguments.portable) {
    PortableArguments asked{
        .device = arguments.solver.device, .all = arguments.all, .problem = arguments.problem};
    if (!arguments.solver.float64.empty()) asked.float64 = parse_float64(arguments.solver.float64);
    const ordered_json report = portable_report(asked);
    return finish_check(arguments.json, portable_text(report), report);
  }
  const std::pair<const char*, bool> rest[] = {{"--problem", !arguments.problem.empty()},
                                               {"--all", arguments.all}};
  for (const auto& [option, given] : rest)
    if (given)
      throw Error(ErrorCode::InvalidArgument,
                  std::string("check repeat: expected --portable beside ") + option + ", got none");
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
               "then with the device, and compare the bits with those of other machines");
  command.option("--float64", &arguments->solver.float64,
                 "with --portable: native or emulated, the device's alone; otherwise both");
  command.flag(
      "--all", arguments->all,
      "with --portable: all problems also with emulated float64, whose kernels compile for "
      "minutes");
  command.option("--problem", &arguments->problem,
                 "with --portable: this problem alone, also with emulated float64");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run_repeat(*arguments); }));
}

namespace {

using problems::PortableProblem;
using problems::PortableRow;

struct Stored {
  std::string_view name, rows, sums, solve;
};
constexpr Stored kStored[] = {
#define TG_PORTABLE(name, rows, sums, solve) {name, rows, sums, solve},
#include "portable_hashes.def"
#undef TG_PORTABLE
    {},
};

constexpr std::string_view kKinds[] = {"rows", "sums", "solve"};

/// Bits of numbers; all NaN are one.
class Bits64 {
 public:
  void add(std::span<const double> numbers) {
    for (const double number : numbers)
      all_.push_back(std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number);
  }
  void add(double number) { add(std::span(&number, 1)); }
  void add(const Eigen::VectorXd& v) {
    add(std::span(v.data(), static_cast<std::size_t>(v.size())));
  }
  std::string hash() const {
    return runtime::hex(runtime::hash_bytes(std::as_bytes(std::span(all_)))).substr(0, 16);
  }

 private:
  std::vector<double> all_;
};

/// Residuals and Jacobian at the start, whose numbers are of one residual each.
std::string rows_of(Evaluator& at) {
  Bits64 bits;
  bits.add(at.residuals());
  const Evaluator::SparseMatrix jacobian = at.jacobian();
  bits.add(std::span(jacobian.valuePtr(), static_cast<std::size_t>(jacobian.nonZeros())));
  return bits.hash();
}

/// Cost, gradient and JᵀJ·p at the start.
std::string sums_of(Evaluator& at) {
  Bits64 bits;
  bits.add(at.cost());
  const Eigen::VectorXd gradient = at.gradient();
  bits.add(gradient);
  Eigen::VectorXd p(gradient.size());
  for (Eigen::Index k = 0; k < p.size(); ++k) p[k] = 1.0 / static_cast<double>(k + 1);
  bits.add(at.jtjp(std::span<const double>(p.data(), static_cast<std::size_t>(p.size()))));
  return bits.hash();
}

std::string solve_of(PortableProblem& made, runtime::EngineCounts& counts) {
  const Summary summary = solve(made.problem, made.options);
  counts += summary;
  Bits64 bits;
  for (const std::vector<double>& x : made.x) bits.add(x);
  bits.add(summary.final_cost);
  for (const IterationSummary& step : summary.iterations) bits.add(step.cost);
  return bits.hash();
}

SolverOptions for_values(SolverOptions options) {
  if (options.precision == Precision::mixed) options.precision = Precision::f64;
  return options;
}

/// Adds the hashes of a problem, and the device on which its options evaluate.
void add_hashes(const PortableRow& row, PortableProblem& made, ordered_json& out) {
  made.options.bits = Bits::portable;
  Evaluator at(made.problem, for_values(made.options));
  out["place"] = at.device();
  ordered_json& hashes = out["rows"].emplace_back();
  hashes = {{"name", row.name}, {"rows", rows_of(at)}, {"sums", sums_of(at)}};
  runtime::EngineCounts counts = at.report();
  hashes["solve"] = solve_of(made, counts);
  hashes["kernels"] = {{"backend", name(made.options.backend)},
                       {"cpu", counts.kernels_on_cpu},
                       {"device", counts.kernels_on_device}};
}

/// All problems, or the one that is asked for.
std::vector<PortableRow> chosen_problems(const std::string& asked) {
  std::vector<PortableRow> out;
  std::string names;
  for (const PortableRow& row : problems::portable_problems()) {
    if (asked.empty() || asked == row.name) out.push_back(row);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  if (out.empty())
    throw Error(ErrorCode::InvalidArgument, "--problem: no portable problem has the name \"" +
                                                asked + "\"; there are " + names);
  return out;
}

/// Returns the device of one process and a row for each problem.
ordered_json on_cpu(std::span<const PortableRow> problems, int threads) {
  ordered_json out = {{"rows", ordered_json::array()}};
  for (const PortableRow& row : problems) {
    const std::unique_ptr<PortableProblem> made = row.make();
    made->options.threads = threads;
    add_hashes(row, *made, out);
  }
  return out;
}

/// A machine without a device, or whose device has no such float64, says so.
bool is_absence(const Error& error) {
  return error.code() == ErrorCode::NoLoader || error.code() == ErrorCode::NoDriver ||
         error.code() == ErrorCode::NoDevice || error.code() == ErrorCode::Unsupported;
}

/// The same for one problem with a device that runs the kernels; empty without one.
ordered_json on_device(const PortableRow& row, const std::string& device, Float64 float64) {
  ordered_json out = {{"rows", ordered_json::array()}};
  const std::unique_ptr<PortableProblem> made = row.make();
  made->options.backend = Backend::vulkan;
  made->options.device = device;
  made->options.float64 = float64;
  try {
    add_hashes(row, *made, out);
  } catch (const Error& error) {
    if (!is_absence(error) || !device.empty()) throw;
    return {};
  }
  if (float64 == Float64::emulated)
    out["place"] = "emulated float64 of " + out["place"].get<std::string>();
  return out;
}

const Stored* stored_of(std::string_view name) {
  for (const Stored& row : kStored)
    if (row.name == name) return &row;
  return nullptr;
}

/// Adds the devices of a process to the rows of the report.
void add_device(ordered_json& report, const ordered_json& found) {
  if (found.is_null() || found["rows"].empty()) return;
  const std::string where = found["place"];
  ordered_json& devices = report["places"];
  if (std::find(devices.begin(), devices.end(), where) == devices.end()) devices.push_back(where);
  for (const ordered_json& from : found["rows"]) {
    ordered_json& to = report["results"][from["name"].get<std::string>()];
    for (const std::string_view kind : kKinds)
      if (from.contains(kind))
        to[std::string(kind)][from[kind].get<std::string>()].push_back(where);
    to["kernels"][where] = from["kernels"];
  }
}

bool is_as_stored(const Stored& stored, const ordered_json& row) {
  const std::string_view expected[] = {stored.rows, stored.sums, stored.solve};
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    const ordered_json& hashes = row[std::string(kKinds[k])];
    if (hashes.size() != 1 || hashes.begin().key() != expected[k]) return false;
  }
  return true;
}

/// Adds the solves with the device, as portable_report() has them. A problem at which the driver
/// ends the process, or fails, is a failure; the others go on.
void add_devices(ordered_json& report, std::span<const PortableRow> problems,
                 const PortableArguments& asked) {
  constexpr double kLongest = 3600;  // to compile a problem's kernels
  for (const Float64 float64 : {Float64::native, Float64::emulated}) {
    if (asked.float64 != Float64::automatic && asked.float64 != float64) continue;
    for (const PortableRow& row : problems) {
      if (Interrupts::came()) break;
      const bool wanted = asked.all || !asked.problem.empty() || row.emulated;
      if (float64 == Float64::emulated && !wanted) continue;
      try {
        add_device(report, in_a_process(
                               "check repeat",
                               [&] { return on_device(row, asked.device, float64); }, kLongest));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::InvalidArgument || is_absence(error)) throw;
        report["failures"].push_back(
            {{"name", row.name}, {"float64", name(float64)}, {"error", error.what()}});
        report["broken"] = true;
      }
    }
  }
}

}  // namespace

ordered_json portable_report(const PortableArguments& arguments) {
  const std::vector<PortableRow> problems = chosen_problems(arguments.problem);
  ordered_json report = {{"check", "repeat"},
                         {"bits", "portable"},
                         {"broken", false},
                         {"places", ordered_json::array()},
                         {"results", ordered_json::object()},
                         {"failures", ordered_json::array()}};
  std::set<std::string> known;
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    for (const int threads : {1, 2}) {
      if (Interrupts::came()) break;
      const ordered_json found = in_a_process("check repeat", [&] {
        platform::set_environment("TOPOGRAD_INSTRUCTIONS", set);
        return on_cpu(problems, threads);
      });
      // A processor without the set has shown the one below it.
      if (known.insert(found["place"]).second) add_device(report, found);
    }
  }
  add_devices(report, problems, arguments);
  for (const auto& [name, row] : report["results"].items()) {
    const Stored* const stored = stored_of(name);
    row["as_stored"] = stored != nullptr && is_as_stored(*stored, row);
    if (!row["as_stored"].get<bool>()) report["broken"] = true;
  }
  return report;
}

std::string portable_text(const ordered_json& report) {
  std::string text;
  for (const ordered_json& where : report["places"]) text += where.get<std::string>() + "\n";
  const std::string_view vulkan = name(Backend::vulkan);
  for (const auto& [name, row] : report["results"].items()) {
    std::string line = name;
    line.resize(22, ' ');
    for (const std::string_view kind : kKinds) {
      for (const auto& [hash, devices] : row[std::string(kind)].items()) {
        line += " " + hash;
        if (row[std::string(kind)].size() == 1) continue;
        line += " (";
        for (const ordered_json& where : devices) line += where.get<std::string>() + "; ";
        line.replace(line.size() - 2, 2, ")");
      }
    }
    line += row["as_stored"].get<bool>() ? "  as stored" : "  BROKEN: not as stored";
    for (const auto& [where, kernels] : row["kernels"].items()) {
      const auto here = kernels["cpu"].get<std::uint64_t>();
      const auto there = kernels["device"].get<std::uint64_t>();
      if (here > 0 && kernels["backend"] == vulkan)
        line += "; " + std::to_string(here) + " of " + std::to_string(here + there) +
                " kernels on the CPU: " + where;
    }
    text += line + "\n";
  }
  for (const ordered_json& failure : report["failures"])
    text += failure["name"].get<std::string>() + " on the device, " +
            failure["float64"].get<std::string>() +
            " float64: BROKEN: " + failure["error"].get<std::string>() + "\n";
  return text;
}

}  // namespace topograd::command
