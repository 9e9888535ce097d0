// The engines for a problem, and values of a model for callers.
#include "session.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/cpu/engine.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/engine/step_elimination.hpp"
#include "../../runtime/plan/passes.hpp"
#include "../host/host_engine.hpp"
#include "../plan/report.hpp"
#include "device_engine.hpp"
#include "routing.hpp"

namespace topograd {
namespace {

runtime::EngineOptions engine_options(const SolverOptions& options, const Plan& plan) {
  runtime::EngineOptions out;
  out.precision = plan.precision.point;
  out.narrow_system = plan.precision.mixed();
  out.threads = options.threads;
  out.accumulation = options.accumulation;
  out.max_instances_per_dispatch = options.max_instances_per_dispatch.value_or(0);
  out.device = options.device;
  out.mask = options.restrictions.mask;
  out.float64 = options.float64;
  out.max_storage_buffer_range = options.restrictions.max_storage_buffer_range;
  out.max_allocation_size = options.restrictions.max_allocation_size;
  out.max_workgroup_invocations = options.restrictions.max_workgroup_invocations;
  out.shared_memory_bytes = options.restrictions.shared_memory_bytes;
  out.validation = options.validation;
  out.deterministic = options.deterministic;
  out.plan = options.plan;
  out.preconditioner = plan.preconditioner.kind;
  out.normal_matrix = options.normal_matrix;
  return out;
}

std::unique_ptr<runtime::Engine> make_interpreter(const ProblemModel& model,
                                                  const SolverOptions& options, const Plan& plan) {
  const runtime::EngineOptions of = engine_options(options, plan);
  runtime::cpu::DeviceParts device;
  if (plan.backend.kernels_on_device) {
    device.rows = make_device_rows(of);
    runtime::require_same_rounding(*device.rows);
    if (!of.narrow_system) device.solver = make_listed_solver(of);
  }
  return runtime::cpu::make_cpu_engine(model.model, of, options.bits, std::move(device));
}

/// The device, and the interpreter that serves while its kernels are made. `model`, `options` and
/// the session's route outlive them.
std::unique_ptr<Engines> start_on_interpreter(std::unique_ptr<runtime::Engine> device,
                                              const Session& session, const ProblemModel& model,
                                              const SolverOptions& options) {
  Plan plan = session.plan;
  plan.preconditioner = runtime::decide_preconditioner(options.preconditioner, false);
  return std::make_unique<Engines>(
      model.model.scalars, std::move(device),
      [&model, &options, plan] { return make_interpreter(model, options, plan); },
      [&route = *session.route](const Error& error) {
        if (!is_device_failure(error.code())) return false;
        route.failed(error);
        return true;
      });
}

/// What this process knows of looking for devices.
std::atomic<bool> looked_for_devices = false;
std::atomic<double> sum_of_short_solves = 0;

/// Asks machine and scheduler as far as the decision depends on them, and tells the scheduler.
void decide_backend(Session& session, const SolverOptions& options) {
  MachineFacts& machine = session.machine;
  const bool automatic = options.backend == Backend::automatic;
  while ((session.plan = decide(session.problem, options, machine)).next != Fact::system) {
    if (session.plan.next == Fact::device) {
      machine.device = look_for_device(options, session.search_seconds);
      if (automatic && machine.device->failed)
        throw Error(machine.device->code, machine.device->problem);
      session.route->consider(*machine.device);
    } else {
      machine.scheduler = session.route->ask(machine.named, true);
    }
  }
  if (!session.problem.has_kernels || machine.scheduler) return;
  if (automatic && !options.deterministic) {
    session.route->ask(machine.named, false);
  } else {
    session.route->follow(session.plan.backend.backend != Backend::cpu);
  }
}

}  // namespace

std::string Session::reason() const { return engines->reason(backend_text(plan.backend)); }

Session open_session(const ProblemModel& model, const SolverOptions& options,
                     const ProblemFacts& problem, const char* operation, const MakeEngine& make) {
  const bool automatic = options.backend == Backend::automatic;
  Session session{.problem = problem};
  session.problem.instances = model.instances();
  session.problem.has_kernels = !model.model.terms.empty();
  session.machine.named = names_device(options) ||
                          (automatic && hybrid_executor().scheduler().options().admit_software);
  session.machine.looked_for = looked_for_devices;
  session.machine.spent = sum_of_short_solves;
  session.route = std::make_unique<Route>(model, options, operation);
  try {
    decide_backend(session, options);
    const BackendChoice& choice = session.plan.backend;
    const bool on_device = choice.backend != Backend::cpu;
    if (on_device && automatic) require_self_check(options);
    const auto made = [&] {
      if (on_device) return make_device_engine(model.model, engine_options(options, session.plan));
      if (make) return make(model.model, engine_options(options, session.plan));
      return make_interpreter(model, options, session.plan);
    };
    std::unique_ptr<runtime::Engine> engine = made();
    session.engines = choice.cpu_first
                          ? start_on_interpreter(std::move(engine), session, model, options)
                          : std::make_unique<Engines>(std::move(engine));
  } catch (const Error& error) {
    if (!automatic || !is_device_failure(error.code())) throw;
    return take_over(model, options, error, session);
  }
  return session;
}

Session take_over(const ProblemModel& model, const SolverOptions& options, const Error& failure,
                  Session& failed) {
  failed.route->failed(failure);
  Session session{.problem = failed.problem, .machine = failed.machine};
  session.problem.system.reset();
  session.machine.failure = failure.what();
  session.plan = decide(session.problem, options, session.machine);
  session.engines = std::make_unique<Engines>(make_interpreter(model, options, session.plan));
  session.route = std::move(failed.route);
  session.search_seconds = failed.search_seconds;
  return session;
}

Session on_host(Session session, const ProblemModel& model) {
  // A factor that the device was asked for is not needed.
  if (session.plan.linear.system.device_factor)
    runtime::factorize(session.engines->planned(), false);
  auto host = std::make_unique<HostEngine>(session.engine(), *model.problem, model.model,
                                           model.with_losses);
  session.host = host.get();
  session.engines->put_around(std::move(host));
  return session;
}

bool may_leave_device(const SolverOptions& options, const char* operation, const Error& error) {
  if (resolved(options).backend != Backend::automatic || !is_device_failure(error.code()))
    return false;
  hybrid_executor().outside_work().record_fallback(operation, "vulkan", error);
  return true;
}

DeviceFacts look_for_device(const SolverOptions& options, double& seconds) {
  const auto begin = std::chrono::steady_clock::now();
  DeviceFacts facts = probe_device(options);
  seconds = seconds_since(begin);
  looked_for_devices = true;
  return facts;
}

void add_short_solve(double seconds) { sum_of_short_solves += seconds; }

double seconds_of_short_solves() { return sum_of_short_solves; }

bool short_solves_add_up() {
  return looked_for_devices || sum_of_short_solves >= kDeviceStartSeconds;
}

bool is_device_failure(ErrorCode code) { return runtime::hybrid::is_device_failure(code); }

void mask_fixed(const runtime::Model& model, Eigen::VectorXd& gradient) {
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    if (model.constant[k]) gradient[static_cast<Eigen::Index>(k)] = 0;
  }
}

Evaluation values_of(runtime::Engine& engine, const runtime::Model& model, const Wanted& wanted) {
  Evaluation out;
  if (wanted.residuals) out.residuals.resize(static_cast<Eigen::Index>(model.rows));
  if (wanted.gradient) out.gradient.resize(static_cast<Eigen::Index>(model.scalars));
  const auto span_of = [](Eigen::VectorXd& v) {
    return std::span<double>(v.data(), static_cast<std::size_t>(v.size()));
  };
  runtime::evaluate(engine, {.cost = wanted.cost ? &out.cost : nullptr,
                             .residuals = span_of(out.residuals),
                             .gradient = span_of(out.gradient)});
  if (wanted.gradient) mask_fixed(model, out.gradient);
  return out;
}

Evaluation values_at(Engines& engines, bool follows_branches, const runtime::Model& model,
                     Numbers x, const Wanted& wanted) {
  const runtime::Pass pass =
      runtime::pass_of_values(wanted.cost, wanted.residuals, wanted.gradient);
  runtime::Engine& engine = engines.at(pass, x);
  if (follows_branches) engine.cost();
  return values_of(engine, model, wanted);
}

}  // namespace topograd
