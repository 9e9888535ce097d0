// A task and solves with known answers.
#include "fault_work.hpp"

#include "../../../runtime/device/device.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/routing.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"

#include <algorithm>
#include <utility>

namespace topograd::check {
namespace {

namespace hybrid = runtime::hybrid;

constexpr std::size_t kLines = 1000;

FaultAnswer run_task(Backend backend, const std::string& device, Precision) {
  FaultAnswer answer;
  {
    hybrid::Executor executor(hybrid::HybridOptions{.admit_software = true});
    SolverOptions options{.device = device};
    options.restrictions.mask = "mapped_memory";  // as on cards without it: through the rings
    add_devices(executor, options);
    const bool forced = backend == Backend::vulkan;
    Lines task(kLines, forced ? hybrid::Override::device : hybrid::Override::none);
    const hybrid::ExecutionStats stats = executor.execute(task);
    answer.right = task.right();
    answer.on_cpu = stats.on_cpu;
    answer.why = stats.fallback.empty() ? "ran on " + stats.device : stats.fallback;
    answer.fallbacks = fallbacks_of(executor);
  }
  runtime::vulkan::release_devices();
  return answer;
}

constexpr std::size_t kValleys = 6;

FaultAnswer solve_valleys(Valleys valleys, SolverOptions options) {
  options.linear_solver = LinearSolver::pcg;
  options.fallback_threshold = 0;
  options.deterministic = true;  // uses the device from the first evaluation
  solve_valleys_to_the_end(options);
  const std::uint64_t before = fallbacks_of(hybrid_executor());
  const Summary summary = solve(valleys.problem(), options);
  FaultAnswer answer;
  answer.fallbacks = fallbacks_of(hybrid_executor()) - before;
  answer.right = valleys.off() < right_within(options.precision);
  answer.on_cpu = !summary.on_device;
  answer.why = summary.why;
  if (!answer.right) {
    answer.why = "off by " + std::to_string(valleys.off()) + " after " +
                 std::to_string(summary.num_iterations()) + " steps: " + summary.message + " (" +
                 summary.why + ")";
  }
  answer.steps = static_cast<std::uint64_t>(summary.num_iterations());
  answer.repeated_steps = static_cast<std::uint64_t>(summary.num_repeated_steps);
  answer.steps_on_device = static_cast<std::uint64_t>(std::ranges::count_if(
      summary.iterations,
      [](const IterationSummary& step) { return step.iteration > 0 && step.on_device; }));
  return answer;
}

FaultAnswer run_solve(Backend backend, const std::string& device, Precision precision) {
  FaultAnswer answer = solve_valleys(
      Valleys(kValleys, 0.9, 0.7), {.backend = backend, .precision = precision, .device = device});
  runtime::vulkan::release_devices();
  return answer;
}

constexpr double kLongRadius = 100;

constexpr NamedWork kWorks[] = {{"task", run_task}, {"solve", run_solve}};

}  // namespace

std::span<const NamedWork> fault_works() { return kWorks; }

FaultAnswer long_solve(Backend backend, const std::string& device, Precision precision) {
  SolverOptions options{.backend = backend, .precision = precision, .device = device};
  options.max_iterations = 1000;
  options.max_trust_region_radius = kLongRadius;  // no Gauss-Newton steps, of which a dozen suffice
  options.initial_trust_region_radius = kLongRadius;
  options.rescale_steps = false;
  FaultAnswer answer = solve_valleys(Valleys(kValleys, -1.2, 1), std::move(options));
  runtime::vulkan::release_devices();
  return answer;
}

}  // namespace topograd::check
