// Rules of the decision, from facts alone.
#include "decide.hpp"

#include <cstdio>
#include <string_view>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

std::string rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

std::string lack_of_float64(const BackendChoice& choice) {
  return "device \"" + choice.device + "\" has no float64, which precision " +
         std::string(name(choice.precision)) + " needs";
}

/// The first rule that applies; `next` says what it has to know.
BackendReason backend_reason(const ProblemFacts& problem, const SolverOptions& options,
                             const MachineFacts& machine, Fact& next) {
  const bool forced = options.backend == Backend::vulkan;
  if (machine.failure) return BackendReason::device_failed;
  if (!problem.has_kernels) return BackendReason::no_kernels;
  if (options.backend == Backend::cpu) return BackendReason::asked_for;
  if (!forced && problem.instances < options.fallback_threshold.value_or(0))
    return BackendReason::below_threshold;
  if (!machine.device) {
    next = Fact::device;
    return {};
  }
  const DeviceFacts& device = *machine.device;
  if (!device.usable) return BackendReason::no_device;
  if (!forced && device.software && !machine.named) return BackendReason::software_device;
  if (options.precision != Precision::f32 && !device.float64) return BackendReason::no_float64;
  if (forced) return BackendReason::asked_for;
  if (options.deterministic) return BackendReason::reaches_threshold;
  if (!machine.scheduler) {
    next = Fact::scheduler;
    return {};
  }
  return machine.scheduler->target == hybrid::kCpu ? BackendReason::scheduler
                                                   : BackendReason::reaches_threshold;
}

/// A device can move the blocks on their manifolds, and within a box that leaves these alone.
bool device_moves_blocks(const ProblemFacts& problem, const SolverOptions& options) {
  return !takes_energies(options.method) && problem.device_manifolds &&
         problem.needs.are_only_manifolds();
}

void refuse_forced(const Plan& plan, const MachineFacts& machine) {
  const BackendReason reason = plan.backend.reason;
  if (reason == BackendReason::no_device)
    throw Error(machine.device->code, "backend vulkan: " + machine.device->problem);
  if (reason == BackendReason::no_float64)
    throw Error(ErrorCode::Unsupported, "backend vulkan: " + lack_of_float64(plan.backend) +
                                            "; use precision f32 or backend automatic");
}

void decide_backend(Plan& plan, const ProblemFacts& problem, const SolverOptions& options,
                    const MachineFacts& machine) {
  BackendChoice& out = plan.backend;
  out.reason = backend_reason(problem, options, machine, plan.next);
  out.instances = problem.instances;
  out.threshold = options.fallback_threshold.value_or(0);
  out.precision = options.precision;
  if (machine.device) {
    out.device = machine.device->name;
    out.problem = machine.device->problem;
  }
  if (machine.failure) out.problem = *machine.failure;
  if (machine.scheduler) out.measurements = *machine.scheduler;
  if (plan.next != Fact::none) return;
  if (options.backend == Backend::vulkan) refuse_forced(plan, machine);
  const bool automatic = out.reason == BackendReason::reaches_threshold;
  if (automatic || (out.reason == BackendReason::asked_for && options.backend == Backend::vulkan))
    out.backend = Backend::vulkan;
  out.may_leave = automatic;
  // The interpreter could not serve first where the device is to move on manifolds.
  out.cpu_first = automatic && !options.deterministic && !problem.at_once &&
                  !device_moves_blocks(problem, options);
}

/// A residual whose unknowns all meet in JᵀJ, where a factor of that part alone takes more than
/// conjugate gradients do.
bool has_wide_residual(const SystemFacts& system) {
  const double operations = system.widest_operations();
  return operations > kCheapPart && operations > kProductsOfStep * system.product_operations;
}

/// Of a factor, at a guess that takes no look at its pattern: the blocks as many steps from one end
/// separate the rest, and a separator fills up.
double least_operations(const EliminationFacts& mesh) {
  const double separator = static_cast<double>(mesh.kept) / static_cast<double>(mesh.reach);
  return 4 * separator * separator * separator;
}

/// Of the engine that solves for all unknowns.
class LinearRules {
 public:
  LinearRules(Plan& plan, const SystemFacts& system, const SolverOptions& options)
      : plan_(plan),
        system_(system),
        options_(options),
        on_device_(plan.backend.backend != Backend::cpu) {}

  void decide() {
    const LinearSolver asked = options_.linear_solver;
    if (system_.unknowns == 0) return iterate(LinearReason::nothing_to_solve);
    if (asked == LinearSolver::pcg) return iterate(LinearReason::asked_for);
    if (asked == LinearSolver::automatic) {
      if (options_.preconditioner != Preconditioner::automatic)
        return iterate(LinearReason::preconditioner);
      if (!system_.hinted) return decide_automatic();
    } else if (asked != LinearSolver::schur) {
      // dense is for the host's steps; with nothing to move it comes here.
      return factor(LinearReason::asked_for);
    }
    if (!system_.elimination) return ask(Fact::elimination);
    if (on_device_ && !system_.on_device) return ask(Fact::device_elimination);
    eliminate(LinearReason::asked_for);
  }

  /// What Newton's method solves by: a factor of projected Hessians, or products.
  void decide_newton() {
    const LinearSolver asked = options_.linear_solver;
    plan_.linear.of_hessian = true;
    if (asked == LinearSolver::pcg) return iterate(LinearReason::asked_for);
    if (asked != LinearSolver::automatic) return factor(LinearReason::asked_for);
    if (system_.unknowns <= kLargestFactorised) return factor(LinearReason::few_unknowns);
    if (system_.slots > kMostSlotsSearched) return iterate(LinearReason::many_unknowns);
    if (has_wide_residual(system_)) return iterate(LinearReason::wide_residual);
    if (!system_.elimination) return ask(Fact::elimination);
    if (system_.elimination->remains_wide) return iterate(LinearReason::mesh);
    factor(LinearReason::no_mesh);
  }

 private:
  void ask(Fact fact) { plan_.next = fact; }
  void choose(LinearSolver kind, LinearReason reason, bool by_engine) {
    plan_.linear.kind = kind;
    plan_.linear.reason = reason;
    plan_.linear.by_engine = by_engine;
  }
  void iterate(LinearReason reason) { choose(LinearSolver::pcg, reason, true); }
  void factor(LinearReason reason) { choose(LinearSolver::cholesky, reason, false); }
  /// On the device, where its engine can.
  void eliminate(LinearReason reason) {
    choose(LinearSolver::schur, reason, system_.on_device && system_.on_device->possible);
    plan_.linear.iterates = iterates_on_schur(options_);
  }
  /// Blocks lie far apart: solved as exactly as the gradient falls.
  void iterate_on_mesh() {
    iterate(LinearReason::mesh);
    plan_.linear.forcing = ForcingSequence::eisenstat_walker;
  }

  void decide_automatic() {
    if (on_device_ && system_.unknowns <= kLargestReadBack &&
        system_.rows * system_.unknowns <= kLargestJacobian)
      return factor(LinearReason::small_jacobian);
    if (has_wide_residual(system_)) return iterate(LinearReason::wide_residual);
    if (on_device_) return decide_on_device();
    if (system_.unknowns <= kLargestFactorised) return factor(LinearReason::few_unknowns);
    if (system_.unknowns > kLargestAnalysed) return iterate(LinearReason::many_unknowns);
    decide_by_factor();
  }

  void decide_on_device() {
    if (system_.unknowns < kLeastEliminated || system_.slots > kMostSlotsSearched)
      return iterate(LinearReason::data_on_device);
    if (!system_.elimination) return ask(Fact::elimination);
    if (system_.elimination->remains_wide) return iterate_on_mesh();
    if (system_.elimination->eliminated < system_.elimination->kept)
      return iterate(LinearReason::data_on_device);
    if (!system_.on_device) return ask(Fact::device_elimination);
    if (!system_.on_device->possible) return iterate(LinearReason::no_elimination);
    eliminate(LinearReason::elimination);
  }

  void decide_by_factor() {
    if (!system_.elimination) return ask(Fact::elimination);
    const EliminationFacts& elimination = *system_.elimination;
    const bool wide = elimination.remains_wide;
    if (elimination.pays) return eliminate(LinearReason::elimination);
    const double most = kProductsOfStep * system_.product_operations;
    if (wide && least_operations(elimination) > most) return iterate_on_mesh();
    if (!system_.factor) return ask(Fact::factor);
    const FactorFacts& cost = *system_.factor;
    if (wide && (!cost.known || cost.operations > most)) return iterate_on_mesh();
    if (!cost.known) return iterate(LinearReason::factor_unknown);
    if (cost.entries > kLargestFactor || cost.operations > kDearestFactor)
      return iterate(LinearReason::factor_dear);
    factor(LinearReason::factor_cheap);
  }

  Plan& plan_;
  const SystemFacts& system_;
  const SolverOptions& options_;
  bool on_device_;
};

/// The host has to make the steps that it is wanted for, whatever would solve for them elsewhere.
bool only_host(const Plan& plan, const ProblemFacts& problem, const SolverOptions& options) {
  const bool on_device = plan.backend.backend != Backend::cpu;
  if (takes_energies(options.method)) return true;
  if (device_moves_blocks(problem, options)) {
    if (!on_device) return true;
  } else if (!problem.needs.are_only_bounds()) {
    return true;
  }
  if (options.linear_solver == LinearSolver::pcg) return false;
  // On the CPU a factor is better, and the host's.
  return options.linear_solver != LinearSolver::automatic || !on_device;
}

void decide_steps(Plan& plan, const ProblemFacts& problem, const SolverOptions& options) {
  const bool wanted = problem.want_host();
  const bool only = wanted && only_host(plan, problem, options);
  LinearRules rules(plan, *problem.system, options);
  LinearChoice& linear = plan.linear;
  linear.system = *problem.system;
  linear.needs = problem.needs;
  plan.steps = only ? StepPlace::host : StepPlace::engine;
  if (takes_energies(options.method)) {
    if (options.method == Method::newton) return rules.decide_newton();
    const bool pcg = options.linear_solver == LinearSolver::pcg;
    linear.kind = pcg ? LinearSolver::pcg : LinearSolver::cholesky;
    linear.reason = LinearReason::from_gradients;
    return;
  }
  if (!only) rules.decide();
  if (wanted && linear.kind != LinearSolver::pcg) plan.steps = StepPlace::host;
  if (plan.next != Fact::none || plan.steps == StepPlace::engine) return;
  linear.kind = host_solver(options.linear_solver, problem.system->hinted, false);
  linear.reason = LinearReason::steps_on_host;
  linear.by_engine = false;
}

std::string scheduler_text(const BackendChoice& choice) {
  const hybrid::Decision& measured = choice.measurements;
  const std::string device = "\"" + choice.device + "\"";
  char numbers[120];
  switch (measured.reason) {
    case hybrid::Reason::slower:
      std::snprintf(numbers, sizeof numbers, "speed-up %.2f measured, %.2f needed",
                    measured.speed_up, measured.needed);
      return device + " is slower here (" + numbers + ")";
    case hybrid::Reason::breaker_open:
    case hybrid::Reason::success_rate:
      return device + " failed before and is left alone for a while";
    case hybrid::Reason::memory_limit:
      return "more memory than " + device + " has, or memory_limit allows";
    case hybrid::Reason::out_of_memory:
      return device + " ran out of memory before with a problem of this size";
    case hybrid::Reason::explored: return "to know how long it takes there, beside " + device;
    default: return device + " was not chosen (" + std::string(name(measured.reason)) + ")";
  }
}

std::string eliminated_text(const LinearChoice& choice) {
  return std::to_string(choice.system.elimination->blocks) + " blocks eliminated, " +
         std::to_string(choice.system.elimination->kept) + " unknowns remain" +
         (choice.iterates ? ": conjugate gradients on products with their complement" : "");
}

std::string asked_text(const LinearChoice& choice, bool on_device) {
  const SystemFacts& system = choice.system;
  if (choice.kind == LinearSolver::pcg) return "asked for";
  const bool by_blocks = choice.kind == LinearSolver::schur;
  std::string out = "asked for";
  if (by_blocks && system.hinted) out += " in the order given";
  if (choice.by_engine) return out + "; on the device, " + system.on_device->note;
  if (on_device) out += "; Jacobian and gradient are read back at each accepted point";
  if (by_blocks) out += "; " + eliminated_text(choice);
  if (system.on_device) out += " (not on the device: " + system.on_device->note + ")";
  return out;
}

std::string newton_text(const LinearChoice& choice) {
  const std::string solver = choice.kind == LinearSolver::pcg
                                 ? "on products with the Hessian"
                                 : "of projected Hessians, on the host";
  const std::string size = std::to_string(choice.system.unknowns) + " unknowns";
  switch (choice.reason) {
    case LinearReason::asked_for:
    case LinearReason::few_unknowns: return solver;
    case LinearReason::mesh:
      return size + ", a mesh up to " + std::to_string(choice.system.elimination->reach) +
             " terms wide: " + solver;
    default: return size + ": " + solver;
  }
}

}  // namespace

Plan decide(const ProblemFacts& problem, const SolverOptions& options,
            const MachineFacts& machine) {
  Plan plan;
  decide_backend(plan, problem, options, machine);
  if (plan.next != Fact::none) return plan;
  if (problem.system) {
    decide_steps(plan, problem, options);
  } else {
    plan.next = Fact::system;
  }
  return plan;
}

LinearSolver host_solver(LinearSolver asked, bool hinted, bool pays) {
  if (asked != LinearSolver::automatic) return asked;
  return hinted || pays ? LinearSolver::schur : LinearSolver::cholesky;
}

bool iterates_on_schur(const SolverOptions& options) {
  return options.linear_solver == LinearSolver::schur &&
         options.preconditioner == Preconditioner::block_jacobi;
}

std::string backend_text(const BackendChoice& choice) {
  const std::string size = std::to_string(choice.instances) + " instances";
  const std::string threshold = " the threshold of " + std::to_string(choice.threshold);
  switch (choice.reason) {
    case BackendReason::asked_for: return "asked for";
    case BackendReason::no_kernels: return "cpu: every residual runs on the host";
    case BackendReason::below_threshold: return "cpu: " + size + " are below" + threshold;
    case BackendReason::no_device: return "cpu: " + choice.problem;
    case BackendReason::software_device:
      return "cpu: the only Vulkan device is software (" + choice.device + ") and was not named";
    case BackendReason::no_float64: return "cpu: " + lack_of_float64(choice);
    case BackendReason::scheduler: return "cpu: " + scheduler_text(choice);
    case BackendReason::reaches_threshold: return "vulkan: " + size + " reach" + threshold;
    case BackendReason::device_failed: return "cpu: the device failed: " + choice.problem;
  }
  return {};
}

std::string linear_text(const Plan& plan) {
  const LinearChoice& choice = plan.linear;
  const SystemFacts& system = choice.system;
  const bool on_device = plan.backend.backend != Backend::cpu;
  if (choice.of_hessian) return newton_text(choice);
  const std::string size = std::to_string(system.unknowns) + " unknowns";
  const bool costs = system.factor && system.factor->known;
  const std::string cost = costs ? size + ": a factor has " + rounded(system.factor->entries) +
                                       " entries and takes " + rounded(system.factor->operations) +
                                       " operations"
                                 : size;
  const std::string data = "the data are on the device";
  switch (choice.reason) {
    case LinearReason::nothing_to_solve: return "nothing to solve";
    case LinearReason::steps_on_host: return "steps on the host: " + text(choice.needs);
    case LinearReason::from_gradients: return "steps come from gradients";
    case LinearReason::asked_for: return asked_text(choice, on_device);
    case LinearReason::preconditioner: return "its preconditioner is asked for";
    case LinearReason::few_unknowns:
    case LinearReason::many_unknowns:
    case LinearReason::no_mesh:
    case LinearReason::factor_unknown: return size;
    case LinearReason::small_jacobian:
      return size + ": fewer than iterations are worth; the Jacobian is read back";
    case LinearReason::wide_residual:
      return size + ": a residual reads " + rounded(static_cast<double>(system.widest)) +
             ", whose part of a factor takes " + rounded(system.widest_operations()) +
             " operations";
    case LinearReason::data_on_device: return data;
    case LinearReason::elimination:
      return on_device ? data + "; " + system.on_device->note
                       : size + ": " + eliminated_text(choice);
    case LinearReason::no_elimination: return data + "; no elimination: " + system.on_device->note;
    case LinearReason::mesh:
      return (on_device ? data : cost) + "; a mesh, up to " +
             std::to_string(system.elimination->reach) +
             " residuals wide: solved as exactly as the gradient falls";
    case LinearReason::factor_cheap: return cost;
    case LinearReason::factor_dear: return cost + ", too many";
  }
  return {};
}

std::string text(const HostNeeds& needs) {
  std::string out;
  const auto add = [&](bool there, std::string_view what) {
    if (there) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  add(needs.bounds, "bounds");
  add(needs.manifolds, "manifolds");
  add(needs.host_residuals, "residuals on the host");
  add(needs.dogleg, "dogleg");
  add(needs.dense, "dense");
  return out;
}

}  // namespace topograd
