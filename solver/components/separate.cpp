// Solves for components side by side.
#include "separate.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/cpu/engine.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../interrupts.hpp"
#include "../solve_watch.hpp"
#include "device_minimizer.hpp"
#include "lane_solver.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <utility>

namespace topograd {
namespace {

/// Components that a thread takes at once, at most.
constexpr std::size_t kComponentsAtOnce = 4096;
/// Components that end before a watch is told again.
constexpr std::size_t kToldAtOnce = 64;

std::string option(const char* name, std::string_view value) {
  return std::string(name) + " " + std::string(value);
}

std::string obstacle_of_steps(const SolverOptions& o) {
  if (o.method != Method::levenberg_marquardt && o.method != Method::gauss_newton)
    return option("method", name(o.method));
  if (o.linear_solver != LinearSolver::automatic && o.linear_solver != LinearSolver::cholesky)
    return option("linear_solver", name(o.linear_solver));
  if (o.factor == FactorPlace::device || o.factor == FactorPlace::cholmod)
    return option("factor", name(o.factor));
  if (o.preconditioner != Preconditioner::automatic)
    return option("preconditioner", name(o.preconditioner));
  if (o.forcing_sequence == ForcingSequence::eisenstat_walker)
    return option("forcing_sequence", name(o.forcing_sequence));
  if (!o.linear_solver_ordering.empty()) return "linear_solver_ordering";
  if (o.use_nonmonotonic_steps) return "use_nonmonotonic_steps";
  return {};
}

std::string obstacle_of_problem(const ProblemModel& model, const SolverOptions& options) {
  const Problem& problem = *model.problem;
  if (problem.energy_count() > 0) return "energies";
  if (problem.constraint_count() > 0) return "constraints";
  if (!problem.host_blocks().empty()) return "residuals on the host";
  if (problem.has_manifolds() && model.model.manifolds == nullptr)
    return "manifolds without an expression, or with bounds";
  if (model.model.manifolds != nullptr &&
      (!options.scale_free || options.absolute_gradient_tolerance > 0))
    return "manifolds with tolerances in the problem's units";
  for (const runtime::Term& term : model.model.terms) {
    if (!term.topology->program.guards.empty()) return "residuals that branch";
    if (term.loss != nullptr && *term.loss != *Loss().program()) return "losses that may decrease";
  }
  return {};
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::Unsupported, "solve: components separate does not know " + what +
                                          "; use components automatic or together");
}

std::string counted(const ComponentCounts& counts) {
  return std::to_string(counts.count) + " components of at most " + std::to_string(counts.largest) +
         " unknowns";
}

ComponentChoice together(std::string why) { return {.why = std::move(why)}; }

/// Collects results; each component is written by one thread.
class Columns final : public ComponentSink {
 public:
  Columns(const ComponentGroups& groups, std::span<double> x, ComponentsSummary& out)
      : x_(x), out_(out), ends_(groups.count), optimality_(groups.count) {
    out.count = groups.count;
    out.groups = groups.groups.size();
    out.largest = groups.largest;
    out.first_unknown = groups.first;
    out.initial_cost.resize(groups.count);
    out.final_cost.resize(groups.count);
    out.termination.resize(groups.count, Termination::FAILURE);
    out.successful_steps.resize(groups.count);
    out.unsuccessful_steps.resize(groups.count);
  }

  void make_covariances(const ComponentGroups& groups) {
    out_.covariance_start.assign(groups.count + 1, 0);
    for (const ComponentGroup& group : groups.groups)
      for (std::size_t k = 0; k < group.count; ++k)
        out_.covariance_start[group.numbers.at(k) + 1] =
            std::uint64_t{group.columns} * group.columns;
    for (std::size_t k = 0; k < groups.count; ++k)
      out_.covariance_start[k + 1] += out_.covariance_start[k];
    out_.covariance.resize(out_.covariance_start.back());
  }

  void finish(const ComponentGroup& group, std::size_t component, std::span<const double> x,
              const ComponentResult& result) override {
    const std::size_t c = group.numbers.at(component);
    out_.initial_cost[c] = result.initial_cost;
    out_.final_cost[c] = result.final_cost;
    out_.termination[c] = termination(result.end);
    out_.successful_steps[c] = result.successful;
    out_.unsuccessful_steps[c] = result.unsuccessful;
    ends_[c] = result.end;
    optimality_[c] = result.optimality;
    if (result.nonfinite > 0) nonfinite_ += static_cast<std::uint64_t>(result.nonfinite);
    if (!result.covariance.empty())
      std::ranges::copy(result.covariance, out_.covariance.begin() + static_cast<std::ptrdiff_t>(
                                                                         out_.covariance_start[c]));
    for (std::uint32_t s = 0; s < group.scalars && result.successful > 0; ++s)
      if (group.column[s] != ComponentGroup::kFixed) x_[group.x[s].at(component)] = x[s];
  }

  /// Counts more that have ended, and tells it now and then unless another thread is telling.
  void count(std::size_t finished) override {
    if (watch_ == nullptr) return;
    const std::size_t done = done_ += finished;
    if (done / kToldAtOnce == (done - finished) / kToldAtOnce && done != out_.count) return;
    const std::unique_lock lock(telling_, std::try_to_lock);
    if (!lock) return;
    watch_->tell(
        {.components_done = done_, .components = out_.count, .seconds = seconds_since(begin_)});
  }

  bool should_end() const override { return watch_ != nullptr && watch_->should_end(); }

  /// Sums, and the verdict about all.
  void tell(const SolverOptions& options, Summary& summary) const {
    std::array<std::size_t, 6> counts{};
    std::array<std::size_t, static_cast<std::size_t>(End::interrupted) + 1> ends{};
    summary.initial_cost = summary.final_cost = summary.optimality = 0;
    std::uint64_t successful = 0, unsuccessful = 0;
    for (std::size_t c = 0; c < out_.count; ++c) {
      ++counts[static_cast<std::size_t>(out_.termination[c])];
      ++ends[static_cast<std::size_t>(ends_[c])];
      if (std::isfinite(out_.initial_cost[c]) && std::isfinite(out_.final_cost[c])) {
        summary.initial_cost += out_.initial_cost[c];
        summary.final_cost += out_.final_cost[c];
      }
      if (optimality_[c] > summary.optimality) summary.optimality = optimality_[c];
      successful += static_cast<std::uint64_t>(out_.successful_steps[c]);
      unsuccessful += static_cast<std::uint64_t>(out_.unsuccessful_steps[c]);
    }
    summary.num_successful_steps = static_cast<int>(std::min<std::uint64_t>(successful, 1U << 30));
    summary.num_unsuccessful_steps =
        static_cast<int>(std::min<std::uint64_t>(unsuccessful, 1U << 30));
    summary.num_nonfinite_steps = static_cast<int>(nonfinite_.load());
    const auto of = [&](Termination t) { return counts[static_cast<std::size_t>(t)]; };
    summary.termination = of(Termination::USER_SUCCESS) > 0     ? Termination::USER_SUCCESS
                          : of(Termination::FAILURE) > 0        ? Termination::FAILURE
                          : of(Termination::NO_CONVERGENCE) > 0 ? Termination::NO_CONVERGENCE
                                                                : Termination::CONVERGENCE;
    summary.message = message(ends, options);
  }

 private:
  /// "998 of 1000 components converged, 2 failed: ...".
  std::string message(std::span<const std::size_t> ends, const SolverOptions& options) const {
    std::size_t converged = 0;
    std::string others;
    for (std::size_t e = 0; e < ends.size(); ++e) {
      const End end = static_cast<End>(e);
      if (ends[e] == 0) continue;
      if (termination(end) == Termination::CONVERGENCE) {
        converged += ends[e];
        continue;
      }
      const auto first = static_cast<std::size_t>(std::ranges::find(ends_, end) - ends_.begin());
      others += "; " + std::to_string(ends[e]) + " ended with " +
                std::string(name(termination(end))) + ": " + reason(end, options) +
                " (the first is component " + std::to_string(first) + ")";
    }
    return std::to_string(converged) + " of " + std::to_string(out_.count) +
           " components converged" + others;
  }

  static std::string reason(End end, const SolverOptions& options) {
    if (end == End::no_usable_step)
      return "no usable step: the linear model expected no decrease " +
             std::to_string(options.max_consecutive_invalid_steps + 1) + " times in a row";
    return text({end}, options);
  }

  std::span<double> x_;
  ComponentsSummary& out_;
  std::vector<End> ends_;
  std::vector<double> optimality_;
  std::atomic<std::uint64_t> nonfinite_ = 0;
  const SolveWatch* const watch_ = SolveWatch::current();
  const LaneSolver::Clock::time_point begin_ = LaneSolver::Clock::now();
  std::atomic<std::size_t> done_ = 0;
  std::mutex telling_;
};

}  // namespace

void check_components(const char* call, const ProblemModel& model, const SolverOptions& options) {
  std::string obstacle = obstacle_of(options);
  if (obstacle.empty() && options.components == Components::together)
    obstacle = option("components", name(options.components));
  if (obstacle.empty()) obstacle = obstacle_of_problem(model, options);
  if (!obstacle.empty())
    throw Error(ErrorCode::Unsupported, std::string(call) + " does not know " + obstacle);
}

std::string obstacle_of(const SolverOptions& o) {
  if (std::string of_steps = obstacle_of_steps(o); !of_steps.empty()) return of_steps;
  if (o.callback || o.update_state_every_iteration) return "callbacks";
  if (o.domain != DomainPolicy::mathematical) return option("domain", name(o.domain));
  if (o.cross_check > 0) return "cross_check";
  if (o.profile) return "profile";
  if (!o.checkpoint.file.empty() || !o.resume.empty()) return "checkpoints";
  return {};
}

ComponentChoice choose_components(const ProblemModel& model, const SolverOptions& options,
                                  bool elsewhere) {
  const bool asked = options.components == Components::separate;
  // Portable bits do not depend on what else keeps components from being separate.
  if (!asked && options.bits == codegen::Bits::portable) return together({});
  if (options.components == Components::together) return together({});
  std::string obstacle = obstacle_of(options);
  if (obstacle.empty() && elsewhere) obstacle = "solves by several processes";
  if (obstacle.empty()) obstacle = obstacle_of_problem(model, options);
  if (!obstacle.empty()) {
    if (asked) refuse(obstacle);
    return together({});
  }
  ComponentChoice choice;
  choice.search =
      std::make_unique<ComponentSearch>(model.model, asked ? kLargestSeparate : kLargestComponent);
  const ComponentCounts& counts = choice.search->counts();
  if (asked) {
    if (counts.exceeds)
      refuse("components of more than " + std::to_string(kLargestSeparate) + " unknowns");
    choice.separate = counts.count > 0;
    choice.why = counted(counts) + "; asked for";
    return choice;
  }
  if (counts.exceeds)
    return together("a component has more than " + std::to_string(kLargestComponent) + " unknowns");
  if (counts.count <= 1) return together({});
  if (counts.count < kLeastComponents)
    return together(counted(counts) + "; separate from " + std::to_string(kLeastComponents) +
                    " on");
  choice.separate = true;
  choice.why = counted(counts) + "; separate from " + std::to_string(kLeastComponents) +
               " on, with up to " + std::to_string(kLargestComponent) + " unknowns each";
  return choice;
}

namespace {

SolverOptions component_options(SolverOptions options, bool on_device) {
  options.backend = on_device ? Backend::vulkan : Backend::cpu;
  if (!on_device) options.precision = Precision::f64;
  return options;
}

}  // namespace

/// The device, if there is one, the components that it minimises, and those that it cannot.
struct ComponentSolver::DeviceGroups {
  DeviceGroups(const ComponentGroups& groups, const SolverOptions& options,
               const MinimizerDevice* chosen) {
    if (chosen == nullptr) return;
    device = std::make_unique<DeviceMinimizer>(options, *chosen);
    for (const ComponentGroup& group : groups.groups) {
      const std::string why = device->device().obstacle_of(group);
      on_device.push_back(why.empty());
      (why.empty() ? minimised : left) += group.count;
      if (obstacle.empty()) obstacle = why;
    }
    if (minimised == 0)
      throw Error(ErrorCode::Unsupported,
                  "solve: backend vulkan does not know " + obstacle + "; use backend cpu");
  }

  std::unique_ptr<DeviceMinimizer> device;

  std::vector<bool> on_device;          ///< by group
  std::size_t minimised = 0, left = 0;  // components
  std::string obstacle;                 ///< of the first that are left
};

/// The kernels of a group, and solvers that no thread uses now.
struct ComponentSolver::Kernels {
  std::unique_ptr<LaneSolver> take_solver(std::size_t components, bool covariances) {
    const std::size_t lanes = program.lanes(components);
    {
      const std::lock_guard lock(mutex);
      while (!idle.empty()) {
        std::unique_ptr<LaneSolver> solver = std::move(idle.back());
        idle.pop_back();
        if (solver->lanes() >= lanes) return solver;
      }
    }
    return std::make_unique<LaneSolver>(program, lanes, covariances);
  }
  void put_back(std::unique_ptr<LaneSolver> solver) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(solver));
  }

  const LaneProgram program;
  MinimizerKernel on_device = {};  ///< where the device minimises the group
  std::mutex mutex = {};
  std::vector<std::unique_ptr<LaneSolver>> idle = {};
};

struct ComponentSolver::Impl {
  bool on_device(std::size_t g) const { return device_groups.device && device_groups.on_device[g]; }
  std::unique_ptr<Kernels> make_kernels(std::size_t g) const {
    std::unique_ptr<Kernels> out(
        new Kernels{.program = LaneProgram(groups.groups[g], options, lower, upper)});
    if (on_device(g)) out->on_device = device_groups.device->kernel_of(out->program);
    return out;
  }
  bool give_device_result(const ComponentGroup& group, std::size_t component,
                          ComponentSink& sink) const;
  void run_group(std::size_t g, Kernels& kernels, LaneSolver::Clock::time_point begin,
                 std::span<const double> x, ComponentSink& sink);
  void describe_device(Summary& summary) const;

  const ComponentGroups& groups;
  const SolverOptions options;
  std::span<const double> lower, upper;
  Runs runs;
  Verdicts verdicts;
  runtime::cpu::Pool pool;
  DeviceGroups device_groups;
  DeviceMinima points;
  std::vector<std::unique_ptr<Kernels>> kept;
};

ComponentSolver::ComponentSolver(const ComponentGroups& groups, const SolverOptions& options,
                                 std::span<const double> lower, std::span<const double> upper,
                                 Runs runs, const MinimizerDevice* device, Verdicts verdicts)
    : impl_(new Impl{.groups = groups,
                     .options = component_options(options, device != nullptr),
                     .lower = lower,
                     .upper = upper,
                     .runs = runs,
                     .verdicts = options.component_covariances ? Verdicts::host : verdicts,
                     .pool = runtime::cpu::Pool(options.threads),
                     .device_groups = DeviceGroups(groups, options, device),
                     .points = {},
                     .kept = {}}) {
  // A device in another precision than was asked for gives no verdict.
  if (impl_->device_groups.device && options.precision == Precision::f64 &&
      impl_->device_groups.device->device().precision != Precision::f64)
    impl_->verdicts = Verdicts::host;
  if (runs == Runs::again) impl_->kept.resize(groups.groups.size());
}
ComponentSolver::~ComponentSolver() = default;

void ComponentSolver::Impl::describe_device(Summary& summary) const {
  DeviceMinimizer& device = *device_groups.device;
  const MinimizerCounts counts = device.take_counts();
  summary.backend = "vulkan";
  summary.on_device = true;
  summary.device = device.device().facts.name;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.3g", counts.kernel_seconds);
  summary.why = "one kernel minimises each component, in " +
                std::string(codegen::name(device.device().precision)) + ", " + seconds.data() +
                " s on the device; " +
                (verdicts == Verdicts::host ? "the interpreter checks where it ends"
                                            : "its own rules end it");
  if (device_groups.left > 0)
    summary.why += "; " + std::to_string(device_groups.left) + " of " +
                   std::to_string(device_groups.minimised + device_groups.left) +
                   " are solved for by the interpreter: the device does not know " +
                   device_groups.obstacle;
  summary.linear_solver_note = "dense, for each component, on the device";
  summary.kernels_on_device += counts.dispatches;
  summary.bytes_up += counts.bytes_up;
  summary.bytes_down += counts.bytes_down;
  summary.submissions += counts.dispatches;
  summary.readbacks += counts.dispatches;
}

/// Gives the device's result, if one of its rules ended the component.
bool ComponentSolver::Impl::give_device_result(const ComponentGroup& group, std::size_t component,
                                               ComponentSink& sink) const {
  if (points.end[component] == End::none) return false;
  const std::span x(points.x);
  sink.finish(group, component, x.subspan(component * group.scalars, group.scalars),
              {.initial_cost = points.initial_cost[component],
               .final_cost = points.final_cost[component],
               .successful = points.accepted[component],
               .unsuccessful = points.rejected[component],
               .end = points.end[component]});
  sink.count(1);
  return true;
}

void ComponentSolver::Impl::run_group(std::size_t g, Kernels& kernels,
                                      LaneSolver::Clock::time_point begin,
                                      std::span<const double> x, ComponentSink& sink) {
  const ComponentGroup& group = groups.groups[g];
  const LaneProgram& program = kernels.program;
  const auto threads = static_cast<std::size_t>(pool.threads());
  const auto share = [&](std::size_t parts) { return (group.count + parts - 1) / parts; };
  const std::size_t least = std::min(group.count, program.lanes(share(threads)));
  const std::size_t grain = std::clamp(share(4 * threads), least, kComponentsAtOnce);
  if (on_device(g)) device_groups.device->run(program, kernels.on_device, x, pool, points);
  const auto run_lanes = [&](std::size_t first, std::size_t last) {
    std::unique_ptr<LaneSolver> solver = kernels.take_solver(grain, options.component_covariances);
    solver->run(first, last, x, begin, sink, on_device(g) ? &points : nullptr);
    kernels.put_back(std::move(solver));
  };
  pool.for_ranges(group.count, grain, [&](std::size_t first, std::size_t last) {
    if (!on_device(g) || verdicts == Verdicts::host) return run_lanes(first, last);
    for (std::size_t k = first; k < last; ++k)
      if (!give_device_result(group, k, sink)) run_lanes(k, k + 1);
  });
}

void ComponentSolver::run(std::span<double> x, Summary& summary) {
  Impl& s = *impl_;
  const auto begin = LaneSolver::Clock::now();
  summary.backend = "cpu";
  summary.device = runtime::cpu::interpreter_name(s.options.precision, s.pool.threads());
  summary.precision = s.options.precision;
  summary.why = "components are solved for by the interpreter";
  summary.linear_solver = LinearSolver::cholesky;
  summary.linear_solver_note = "dense, for each component";
  Columns columns(s.groups, x, summary.components);
  if (s.options.component_covariances) columns.make_covariances(s.groups);
  for (std::size_t g = 0; g < s.groups.groups.size(); ++g) {
    std::unique_ptr<Kernels> once;
    std::unique_ptr<Kernels>& kernels = s.runs == Runs::again ? s.kept[g] : once;
    if (!kernels) kernels = s.make_kernels(g);
    s.run_group(g, *kernels, begin, x, columns);
    summary.kernels_on_cpu += s.groups.groups[g].kernels.size();
  }
  if (s.device_groups.device) s.describe_device(summary);
  summary.times.evaluation_seconds += seconds_since(begin);
  columns.tell(s.options, summary);
  summary.iterations.push_back({.cost = summary.initial_cost});
}

}  // namespace topograd
