// topograd check start: the cost of compilation in a first call, with and without caches.
#include "checks.hpp"

#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../input/named_problem.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/solve.hpp"
#include "../../check/faults/known_answers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
namespace hybrid = runtime::hybrid;

constexpr std::size_t kItems = 100'000;
constexpr int kWarmCalls = 20, kWarmSolves = 3;
// A machine that does other work gets more tries.
constexpr int kSecondProcesses = 3, kMostSecondProcesses = 12;
// Largest allowed compile time of the second process, as a fraction of the first.
constexpr double kMostOfFirst = 0.1;

struct StartArguments {
  std::string backend, device, mesh, json;
};

double milliseconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median_of(int count, const std::function<void()>& work) {
  std::vector<double> ms;
  for (int k = 0; k < count; ++k) ms.push_back(milliseconds_of(work));
  std::ranges::sort(ms);
  return ms[ms.size() / 2];
}

/// In a child process: uses only `folder` for its caches and those of drivers.
void keep_caches_in(const std::filesystem::path& folder) {
  for (const char* name : {"TOPOGRAD_CACHE_DIR", "MESA_SHADER_CACHE_DIR",
                           "__GL_SHADER_DISK_CACHE_PATH", "CUDA_CACHE_PATH"}) {
    const std::filesystem::path own = folder / name;
    std::filesystem::create_directories(own);
    std::filesystem::permissions(own, std::filesystem::perms::owner_all);
    platform::set_environment(name, own.string());
  }
  platform::set_environment("MESA_SHADER_CACHE_DISABLE", "0");
  platform::set_environment("TOPOGRAD_HYBRID_STATE", "none");
  platform::set_environment("TOPOGRAD_VALIDATION", "0");
}

/// Times calls of one task of the hybrid executor.
ordered_json time_calls(const StartArguments& arguments, bool warm_up) {
  hybrid::Executor executor(hybrid::HybridOptions{.admit_software = true});
  add_devices(executor, {.device = arguments.device});
  check::Lines task(kItems, hybrid::Override::device);
  hybrid::Task* const list[] = {&task};
  const auto call = [&] { executor.execute(task); };
  ordered_json times;
  if (warm_up) times["warm_up_ms"] = milliseconds_of([&] { executor.warm_up(list); });
  times["first_call_ms"] = milliseconds_of(call);
  times["warm_call_ms"] = median_of(kWarmCalls, call);
  if (!task.right()) throw Error(ErrorCode::Internal, "check start: a wrong answer");
  return times;
}

/// Times a solve, and a second one that compiles nothing.
ordered_json time_solves(const StartArguments& arguments) {
  ProblemArguments wanted{.name = "arap", .mesh = arguments.mesh};
  if (arguments.mesh.empty()) wanted.icosphere = 3;
  SolverOptions options{.backend = Backend::vulkan, .device = arguments.device};
  const DeviceFacts facts = probe_device(options);
  if (facts.available && !facts.float64) options.precision = Precision::f32;
  options.max_iterations = 1;
  options.max_linear_iterations = 5;  // the kernels do not depend on it
  Summary first;
  const auto solve_fresh = [&](Summary* out) {
    const std::unique_ptr<NamedProblem> named = make_problem(wanted);
    return milliseconds_of([&] {
      const Summary summary = solve(named->problem(), options);
      if (out) *out = summary;
    });
  };
  const double first_ms = solve_fresh(&first);
  double warm_ms = solve_fresh(nullptr);
  for (int k = 1; k < kWarmSolves; ++k) warm_ms = std::min(warm_ms, solve_fresh(nullptr));
  const PhaseTimes& t = first.times;
  const double waited = std::max(0.0, first_ms - warm_ms);
  // A software device compiles at the first dispatch, which is not visible in calls.
  return {{"device", first.device},
          {"first_solve_ms", first_ms},
          {"warm_solve_ms", warm_ms},
          {"waited_ms", waited},
          {"compile_ms", facts.software() ? waited : t.glsl_ms + t.spirv_ms + t.pipeline_ms},
          {"glsl_ms", t.glsl_ms},
          {"spirv_ms", t.spirv_ms},
          {"pipeline_ms", t.pipeline_ms}};
}

/// The result of a child process with caches in `folder`.
ordered_json with_caches(const std::filesystem::path& folder,
                         const std::function<ordered_json()>& work) {
  return in_a_process("check start", [&] {
    keep_caches_in(folder);
    return work();
  });
}

ordered_json measure(const StartArguments& arguments) {
  const check::Folder folder("start");
  ordered_json unfinished = {{"check", "start"}, {"broken", false}, {"device", ""}};
  const std::filesystem::path kept = folder.path() / "kept", other = folder.path() / "other";
  const auto calls_and_solves = [&] {
    return ordered_json{{"calls", time_calls(arguments, false)}, {"solve", time_solves(arguments)}};
  };
  const ordered_json first = with_caches(kept, calls_and_solves);
  // The minimum of some runs, because other processes only add time.
  if (Interrupts::came()) return unfinished;
  ordered_json second = with_caches(kept, calls_and_solves);
  const auto broken = [&] {
    return second["solve"]["compile_ms"] >
           kMostOfFirst * first["solve"]["compile_ms"].get<double>();
  };
  for (int k = 1; k < kSecondProcesses || (broken() && k < kMostSecondProcesses); ++k) {
    if (Interrupts::came()) return unfinished;
    ordered_json again_there = with_caches(kept, calls_and_solves);
    if (again_there["solve"]["compile_ms"] < second["solve"]["compile_ms"])
      second = std::move(again_there);
  }
  if (Interrupts::came()) return unfinished;
  const ordered_json warmed = with_caches(other, [&] { return time_calls(arguments, true); });
  const double compile = first["solve"]["compile_ms"], again = second["solve"]["compile_ms"];
  ordered_json report = {{"check", "start"},
                         {"broken", broken()},
                         {"device", first["solve"]["device"]},
                         {"first_call_ms", first["calls"]["first_call_ms"]},
                         {"warm_call_ms", first["calls"]["warm_call_ms"]},
                         {"first_call_after_warm_up_ms", warmed["first_call_ms"]},
                         {"warm_up_ms", warmed["warm_up_ms"]},
                         {"first_call_of_second_process_ms", second["calls"]["first_call_ms"]},
                         {"first_process", first["solve"]},
                         {"second_process", second["solve"]},
                         {"second_over_first", compile > 0 ? again / compile : 0}};
  return report;
}

std::string text_of_times(const ordered_json& report) {
  const auto ms = [](const ordered_json& number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.2f ms", number.get<double>());
    return std::string(text);
  };
  char share[40];
  std::snprintf(share, sizeof share, "%.1f %%", 100 * report["second_over_first"].get<double>());
  return "first call " + ms(report["first_call_ms"]) + ", warm call " + ms(report["warm_call_ms"]) +
         ", first call after warm_up " + ms(report["first_call_after_warm_up_ms"]) +
         ", first call of a second process " + ms(report["first_call_of_second_process_ms"]) +
         "\nfirst solve of arap: " + ms(report["first_process"]["waited_ms"]) +
         " more than later ones, in a second process " + ms(report["second_process"]["waited_ms"]) +
         "; compiling, all threads: " + ms(report["first_process"]["compile_ms"]) +
         ", in a second process " + ms(report["second_process"]["compile_ms"]) + ": " + share +
         (report["broken"].get<bool>() ? "  BROKEN" : "") + "\n";
}

void run_start(const StartArguments& arguments) {
  ordered_json report;
  const Backend backend =
      arguments.backend.empty() ? Backend::automatic : parse_backend(arguments.backend);
  try {
    if (backend == Backend::cpu) throw Error(ErrorCode::NoDevice, "backend cpu");
    report = measure(arguments);
  } catch (const Error& error) {
    // Without a device nothing is compiled.
    const bool absent = error.code() == ErrorCode::NoLoader ||
                        error.code() == ErrorCode::NoDriver || error.code() == ErrorCode::NoDevice;
    if (backend == Backend::vulkan || !absent) throw;
    report = {{"check", "start"}, {"broken", false}, {"device", ""}};
  }
  const std::string text = Interrupts::came()       ? "interrupted before all of it was measured\n"
                           : report["device"] == "" ? "no device: nothing to compile\n"
                                                    : text_of_times(report);
  finish_check(arguments.json, text, report);
}

}  // namespace

void add_check_start(Command check) {
  auto arguments = std::make_shared<StartArguments>();
  Command command =
      check.subcommand("start", "What compiling costs a process, and the one after it");
  command.option("--backend", &arguments->backend,
                 "vulkan: without a device that is an error; cpu: nothing is compiled");
  command.option("--device", &arguments->device, "index or name of a Vulkan device");
  command.option("--mesh", &arguments->mesh, "mesh file for arap; otherwise an icosphere");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run_start(*arguments); }));
}

}  // namespace topograd::command
