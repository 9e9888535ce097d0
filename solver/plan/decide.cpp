// Rules of the decision, from facts alone.
#include "decide.hpp"

#include "report.hpp"

#include <algorithm>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

/// Looking for devices would take longer than the solve. A threshold of 0 asks for a device.
bool is_short(const ProblemFacts& problem, const SolverOptions& options,
              const MachineFacts& machine) {
  if (machine.named || machine.looked_for || options.deterministic || problem.at_once) return false;
  return options.fallback_threshold.value_or(0) > 0 && problem.cpu_seconds > 0 &&
         machine.spent + problem.cpu_seconds < kDeviceStartSeconds;
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
    if (!forced && is_short(problem, options, machine)) return BackendReason::short_solve;
    next = Fact::device;
    return {};
  }
  const DeviceFacts& device = *machine.device;
  if (!device.available) return BackendReason::no_device;
  if (!forced && device.software() && !machine.named) return BackendReason::software_device;
  if (options.precision != Precision::f32 && !device.float64) return BackendReason::no_float64;
  if (forced) return BackendReason::asked_for;
  // An emulation may be slower than the CPU, which no rule can tell.
  if (options.deterministic && options.precision != Precision::f32 && device.emulated_float64)
    return BackendReason::no_float64;
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
  return !takes_energies(options.method) && problem.engine_manifolds &&
         problem.needs.are_only_manifolds();
}

void refuse_forced(const Plan& plan, const MachineFacts& machine) {
  const BackendReason reason = plan.backend.reason;
  if (reason == BackendReason::no_device)
    throw Error(machine.device->code, "backend vulkan: " + machine.device->problem);
  if (reason == BackendReason::no_float64)
    throw Error(ErrorCode::Unsupported,
                "backend vulkan: " + lack_of_float64(plan.backend) +
                    "; use float64 emulated, precision f32 or backend automatic");
}

void decide_backend(Plan& plan, const ProblemFacts& problem, const SolverOptions& options,
                    const MachineFacts& machine) {
  BackendChoice& out = plan.backend;
  out.reason = backend_reason(problem, options, machine, plan.next);
  out.instances = problem.instances;
  out.threshold = options.fallback_threshold.value_or(0);
  out.cpu_seconds = problem.cpu_seconds;
  out.precision = options.precision;
  if (machine.device) {
    out.device = machine.device->name;
    out.problem = machine.device->problem;
    out.software = machine.device->software();
    out.emulated_float64 = machine.device->emulated_float64;
  }
  if (machine.failure) out.problem = *machine.failure;
  if (machine.scheduler) out.measurements = *machine.scheduler;
  if (plan.next != Fact::none) return;
  if (options.backend == Backend::vulkan) refuse_forced(plan, machine);
  const bool automatic = out.reason == BackendReason::reaches_threshold;
  const bool asked = out.reason == BackendReason::asked_for && options.backend == Backend::vulkan;
  out.kernels_on_device = asked && options.bits == Bits::portable;
  if (automatic || (asked && !out.kernels_on_device)) out.backend = Backend::vulkan;
  out.may_leave = automatic;
  // The interpreter could not serve first where the device is to move on manifolds.
  out.cpu_first = automatic && !options.deterministic && !problem.at_once &&
                  !device_moves_blocks(problem, options);
  plan.preconditioner =
      runtime::decide_preconditioner(options.preconditioner, out.backend == Backend::vulkan);
}

/// A residual whose unknowns all meet in JᵀJ, where a factor of that part alone takes more than
/// conjugate gradients do.
bool has_wide_residual(const SystemFacts& system) {
  const double operations = system.widest_operations();
  return operations > kCheapPart &&
         factor_seconds(system.work, {.operations = operations}, system.threads) >
             expected_iterations(system.work, {}) * iteration_seconds(system.work, system.threads);
}

/// An upper bound.
FactorFacts dense_factor(std::uint64_t unknowns) {
  const auto n = static_cast<double>(unknowns);
  return {.entries = n * (n + 1) / 2, .operations = n * n * n / 3};
}

/// Guesses the operations of a factor without its pattern: the blocks at one distance from an end
/// separate the rest, and a separator becomes dense.
double least_operations(const EliminationFacts& mesh) {
  const double separator = static_cast<double>(mesh.kept) / static_cast<double>(mesh.reach);
  return 4 * separator * separator * separator;
}

/// Seconds of a step by a factor: those of its pattern if that was found, else a lower bound from
/// the sum of JᵀJ, its plan, and the separators of a mesh.
double known_factor_seconds(const SystemFacts& system) {
  if (system.factor) return factor_seconds(system.work, *system.factor, system.threads);
  const bool is_mesh = system.elimination && system.elimination->remains_wide;
  const double operations = is_mesh ? least_operations(*system.elimination) : 0;
  return factor_seconds(system.work, {.operations = operations}, system.threads) +
         plan_seconds_of_step(system.work);
}

/// A factor that was planned needs too much memory or time.
bool is_dear(const std::optional<FactorFacts>& factor) {
  return factor && (factor->entries > kLargestFactor || factor->operations > kDearestFactor);
}

/// As kClear for a factor whose operations are guessed from the width of a mesh: a chain with few
/// loops takes far fewer.
constexpr double kClearGuess = 2.5;

/// Rules of the linear solver where an engine solves for all unknowns.
class LinearRules {
 public:
  LinearRules(Plan& plan, const SystemFacts& system, const SolverOptions& options)
      : plan_(plan),
        system_(system),
        options_(options),
        on_device_(plan.backend.backend != Backend::cpu) {}

  void decide() {
    if (system_.unknowns == 0) return iterate(LinearReason::nothing_to_solve);
    switch (form_of(options_.linear_solver)) {
      case LinearForm::products: return iterate(LinearReason::asked_for);
      case LinearForm::factor:
      case LinearForm::jacobian:  // is for the host's steps; with nothing to move it comes here
        return factor(LinearReason::asked_for);
      case LinearForm::undecided:
        if (options_.factor == FactorPlace::device) return factor(LinearReason::asked_for);
        if (options_.preconditioner != Preconditioner::automatic)
          return iterate(LinearReason::preconditioner);
        if (!system_.hinted) return decide_automatic();
        break;
      case LinearForm::elimination: break;
    }
    if (!system_.elimination) return ask(Fact::elimination);
    if (on_device_ && !system_.on_device) return ask(Fact::device_elimination);
    eliminate(LinearReason::asked_for);
  }

  /// Newton's method solves by a factor of projected Hessians, or by products.
  void decide_newton() {
    plan_.linear.of_hessian = true;
    switch (form_of(options_.linear_solver)) {
      case LinearForm::products: return iterate(LinearReason::asked_for);
      case LinearForm::factor:
      case LinearForm::elimination:
      case LinearForm::jacobian: return factor(LinearReason::asked_for);
      case LinearForm::undecided: break;
    }
    if (projection_seconds(system_.work, system_.threads) >
        kDearProjection * curved_products_seconds(system_.work, system_.threads))
      return iterate(LinearReason::hessians_dear);
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
  void factor(LinearReason reason) {
    const FactorChoice where = decide_factor(
        {.asked = options_.factor,
         .on_device = on_device_ && !plan_.linear.of_hessian && plan_.steps == StepBackend::engine,
         .software = plan_.backend.software,
         .threads = system_.threads,
         .unknowns = system_.unknowns,
         .factor = system_.factor,
         .device = system_.device_factor});
    if (where.next == FactorChoice::Fact::factor) return ask(Fact::factor);
    if (where.next == FactorChoice::Fact::device) return ask(Fact::device_factor);
    plan_.linear.factor = where;
    const bool there = where.backend == FactorPlace::device && system_.device_factor &&
                       system_.device_factor->possible;
    choose(LinearSolver::cholesky, reason, there);
  }
  /// On the device, where its engine can.
  void eliminate(LinearReason reason) {
    choose(LinearSolver::schur, reason, system_.on_device && system_.on_device->possible);
    plan_.linear.iterates = iterates_on_schur(options_);
  }
  /// Solved as exactly as the gradient falls.
  void iterate_loosely(LinearReason reason) {
    iterate(reason);
    plan_.linear.forcing = ForcingSequence::eisenstat_walker;
  }
  /// Blocks lie far apart.
  void iterate_on_mesh() { iterate_loosely(LinearReason::mesh); }

  void decide_automatic() {
    if (on_device_ && system_.unknowns <= kLargestReadBack &&
        system_.rows * system_.unknowns <= kLargestJacobian)
      return factor(LinearReason::small_jacobian);
    if (has_wide_residual(system_)) return iterate(LinearReason::wide_residual);
    if (on_device_) return decide_on_device();
    if (system_.unknowns > kLargestAnalysed) return iterate(LinearReason::many_unknowns);
    decide_by_time();
  }

  /// A factor on the host takes less time than iterations there, with the Jacobian's way to it.
  bool is_read_back() const {
    if (plan_.linear.needs.any() || system_.unknowns >= kLeastEliminated) return false;
    const double way = 8 * system_.work.numbers / kReadBackRate;
    return way + factor_seconds(system_.work, dense_factor(system_.unknowns), system_.threads) <
           kDeviceIterationSeconds * expected_iterations(system_.work, {});
  }

  void decide_on_device() {
    if (system_.work.penalties && system_.unknowns <= kLargestAnalysed)
      return factor_there([&] { factor(LinearReason::penalties); });
    if (is_read_back()) return factor(LinearReason::read_back);
    if (system_.unknowns < kLeastEliminated || system_.slots > kMostSlotsSearched)
      return iterate(LinearReason::data_on_device);
    if (!system_.elimination) return ask(Fact::elimination);
    const EliminationFacts& elimination = *system_.elimination;
    // Two levels, which meshes need, are for unknowns that are all free.
    const bool steps_on_host = plan_.linear.needs.any();
    if (elimination.remains_wide && !steps_on_host) return iterate_on_mesh();
    if (elimination.remains_wide) return factor_there([&] { iterate_on_mesh(); });
    if (elimination.eliminated < elimination.kept)
      return factor_there([&] { iterate(LinearReason::data_on_device); });
    if (!system_.on_device) return ask(Fact::device_elimination);
    if (system_.on_device->possible) return eliminate(LinearReason::elimination);
    factor_there([&] { iterate(LinearReason::no_elimination); });
  }

  /// A factor on the device if it takes no longer than the iterations of a step, which are many
  /// where nothing but block-Jacobi preconditions them.
  template <class Otherwise>
  void factor_there(const Otherwise& otherwise) {
    if (plan_.backend.software || options_.factor != FactorPlace::automatic ||
        system_.unknowns > kMostFactoredThere)
      return otherwise();
    if (!system_.device_factor) return ask(Fact::device_factor);
    const runtime::FactorUse& use = *system_.device_factor;
    const double seconds = device_factor_seconds(use);
    if (!use.possible || seconds > kFactorSeconds) return otherwise();
    plan_.linear.factor = {.backend = FactorPlace::device,
                           .reason = FactorReason::data_on_device,
                           .device_seconds = seconds};
    choose(LinearSolver::cholesky, LinearReason::factor_cheap, true);
  }

  /// Even a dense factor takes less time than a few iterations.
  ///
  ///   iteration  its seconds
  bool is_trifle(double iteration) const {
    return system_.unknowns <= kLargestReadBack ||
           factor_seconds(system_.work, dense_factor(system_.unknowns), system_.threads) <=
               std::max(kTrifle, kFewestIterations * kClear * iteration);
  }

  /// The faster one of a factor and iterations, as predicted. Facts that cost time are asked for
  /// only where they can change the answer.
  void decide_by_time() {
    const double iteration = iteration_seconds(system_.work, system_.threads);
    const bool is_small = system_.unknowns <= kLargestFactorised;
    if (is_small && is_trifle(iteration)) return factor_trifle();
    if (!is_small && is_search_short() && !system_.elimination) return ask(Fact::elimination);
    const EliminationFacts elimination = system_.elimination.value_or(EliminationFacts{});
    if (elimination.pays) return eliminate(LinearReason::elimination);
    const StepSeconds expected = expected_seconds(iteration, elimination);
    plan_.linear.expected = expected;
    if (is_dear(system_.factor)) return iterate(LinearReason::factor_dear);
    if (expected.cholesky > kClear * expected.pcg) {
      const bool guessed = !system_.factor && elimination.remains_wide;
      if (guessed && expected.cholesky <= kClearGuess * expected.pcg) return ask(Fact::factor);
      return iterate_loosely(elimination.remains_wide ? LinearReason::mesh
                                                      : LinearReason::fewer_seconds);
    }
    if (is_worth_trying()) return ask(Fact::iterations);
    if (!system_.factor) return ask(Fact::factor);
    factor(is_small ? LinearReason::few_unknowns : LinearReason::factor_cheap);
  }

  void factor_trifle() {
    if (!system_.factor) return ask(Fact::factor);  // the solver needs its plan anyway
    plan_.linear.expected.cholesky = factor_seconds(system_.work, *system_.factor, system_.threads);
    factor(LinearReason::few_unknowns);
  }

  /// Blocks to eliminate are found in little time.
  bool is_search_short() const {
    return system_.widest <= kWidestSearched ||
           system_.slots * system_.widest <= kMostSlotsSearched;
  }

  /// Seconds of a step by a factor and by iterations, as far as the facts tell.
  ///
  ///   iteration  seconds of one
  StepSeconds expected_seconds(double iteration, const EliminationFacts& elimination) const {
    IterationFacts facts;
    if (elimination.remains_wide && !plan_.linear.needs.any()) facts.reach = elimination.reach;
    if (system_.iterations && system_.iterations->converged())
      facts.tried = system_.iterations->count;
    return {.cholesky = known_factor_seconds(system_),
            .pcg = iteration * expected_iterations(system_.work, facts)};
  }

  /// Iterations might take less time than the factor, as far as its time is known, and no earlier
  /// try was nearly as long.
  bool is_worth_trying() const {
    const StepWork& work = system_.work;
    if (work.numbers > kLargestTried || work.penalties || plan_.linear.needs.manifolds)
      return false;
    const int most = iterations_to_try(system_);
    if (most < kFewestIterations) return false;
    return !system_.iterations ||
           (!system_.iterations->converged() && most >= 2 * system_.iterations->most);
  }

  Plan& plan_;
  const SystemFacts& system_;
  const SolverOptions& options_;
  bool on_device_;
};

/// Few unknowns and many rows: iterations, at most one for each unknown, take less time than a
/// Jacobian in the tangent spaces.
bool iterates_on_manifolds(const ProblemFacts& problem, const SolverOptions& options) {
  if (options.linear_solver != LinearSolver::automatic || problem.needs.bounds ||
      options.factor == FactorPlace::device || !options.linear_solver_ordering.empty())
    return false;
  const StepWork& work = problem.system->work;
  return work.numbers >= kManyNumbers &&
         work.unknowns * iteration_seconds(work, 1) < kTangentSeconds * work.numbers;
}

/// The CPU's engine moves the blocks in steps of conjugate gradients.
bool cpu_moves_blocks(const Plan& plan, const ProblemFacts& problem, const SolverOptions& options) {
  const bool asked = form_of(options.linear_solver) == LinearForm::products;
  return (asked || iterates_on_manifolds(problem, options)) && !plan.precision.mixed() &&
         plan.precision.point == Precision::f64;
}

/// The host has to make the steps that it is wanted for, whatever would solve for them elsewhere.
bool only_host(const Plan& plan, const ProblemFacts& problem, const SolverOptions& options) {
  const bool on_device = plan.backend.backend != Backend::cpu;
  if (takes_energies(options.method)) return true;
  if (device_moves_blocks(problem, options)) {
    if (!on_device && !cpu_moves_blocks(plan, problem, options)) return true;
  } else if (!problem.needs.are_only_bounds()) {
    return true;
  }
  const LinearForm form = form_of(options.linear_solver);
  if (form == LinearForm::products) return false;
  if (!on_device && problem.needs.manifolds) return false;  // by iterations
  // On the CPU a factor is better, and the host's. Eliminations on a device go without bounds and
  // manifolds.
  return form == LinearForm::elimination || !on_device;
}

/// A factor that is to be on a device is not made elsewhere, unless the device failed.
void refuse_other_factor(const Plan& plan, const SolverOptions& options,
                         const MachineFacts& machine) {
  const LinearChoice& linear = plan.linear;
  if (options.factor != FactorPlace::device || plan.next != Fact::none || machine.failure) return;
  if (linear.by_engine && form_of(linear.kind) == LinearForm::factor) return;
  if (linear.reason == LinearReason::nothing_to_solve) return;
  throw Error(ErrorCode::Unsupported,
              "factor device: " + lack_of_device_factor(plan) + "; use factor host or automatic");
}

void decide_steps(Plan& plan, const ProblemFacts& problem, const SolverOptions& options) {
  const bool wanted = problem.want_host();
  const bool only = wanted && only_host(plan, problem, options);
  LinearRules rules(plan, *problem.system, options);
  LinearChoice& linear = plan.linear;
  linear.system = *problem.system;
  linear.needs = problem.needs;
  plan.steps = only ? StepBackend::host : StepBackend::engine;
  if (takes_energies(options.method)) {
    if (options.method == Method::newton) return rules.decide_newton();
    const bool products = form_of(options.linear_solver) == LinearForm::products;
    linear.kind = products ? LinearSolver::pcg : LinearSolver::cholesky;
    linear.reason = LinearReason::from_gradients;
    return;
  }
  const bool on_cpu = plan.backend.backend == Backend::cpu;
  if (!only && wanted && on_cpu && problem.needs.manifolds && !problem.nothing_free &&
      options.linear_solver == LinearSolver::automatic) {
    linear.kind = LinearSolver::pcg;
    linear.reason = LinearReason::fewer_seconds;
    return;
  }
  if (!only) rules.decide();
  if (only || (wanted && !linear.by_engine)) plan.steps = StepBackend::host;
  if (plan.next != Fact::none || plan.steps == StepBackend::engine) return;
  linear.kind = host_solver(options.linear_solver, problem.system->hinted, false);
  linear.reason = LinearReason::steps_on_host;
  linear.by_engine = false;
}

}  // namespace

int iterations_to_try(const SystemFacts& system) {
  const double seconds = known_factor_seconds(system);
  const double most = seconds / (2 * iteration_seconds(system.work, system.threads));
  return static_cast<int>(std::min(most, kMostTried));
}

Plan decide(const ProblemFacts& problem, const SolverOptions& options,
            const MachineFacts& machine) {
  Plan plan{.precision = {.point = options.precision, .system = options.precision}};
  if (options.precision == Precision::mixed)
    plan.precision = {.point = Precision::f64, .system = Precision::f32};
  decide_backend(plan, problem, options, machine);
  if (plan.next != Fact::none) return plan;
  if (problem.system) {
    decide_steps(plan, problem, options);
    refuse_other_factor(plan, options, machine);
  } else {
    plan.next = Fact::system;
  }
  return plan;
}

bool iterates_anyway(const SolverOptions& options, std::uint64_t unknowns) {
  if (form_of(options.linear_solver) == LinearForm::products) return true;
  if (options.linear_solver != LinearSolver::automatic || options.factor == FactorPlace::device)
    return false;
  if (options.preconditioner != Preconditioner::automatic) return true;
  return options.linear_solver_ordering.empty() && unknowns > kLargestAnalysed;
}

LinearSolver host_solver(LinearSolver asked, bool hinted, bool pays) {
  if (asked != LinearSolver::automatic) return asked;
  return hinted || pays ? LinearSolver::schur : LinearSolver::cholesky;
}

bool iterates_on_schur(const SolverOptions& options) {
  return form_of(options.linear_solver) == LinearForm::elimination &&
         options.preconditioner == Preconditioner::block_jacobi;
}

}  // namespace topograd
