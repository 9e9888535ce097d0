// An engine for a problem, in the place that was chosen for it.
#include "session.hpp"

#include "../../runtime/cpu/engine.hpp"
#include "../host/host_engine.hpp"
#include "device_engine.hpp"
#include "mixed_engine.hpp"

#include <optional>

namespace topograd {
namespace {

runtime::EngineOptions engine_options(const SolverOptions& options) {
  runtime::EngineOptions out;
  out.precision = options.precision;
  out.threads = options.threads;
  out.accumulation = options.accumulation;
  out.max_instances_per_dispatch = options.max_instances_per_dispatch.value_or(0);
  out.device = options.device;
  out.mask = options.restrictions.mask;
  out.max_storage_buffer_range = options.restrictions.max_storage_buffer_range;
  out.max_allocation_size = options.restrictions.max_allocation_size;
  out.max_workgroup_invocations = options.restrictions.max_workgroup_invocations;
  out.shared_memory_bytes = options.restrictions.shared_memory_bytes;
  out.validation = options.validation;
  out.deterministic = options.deterministic;
  out.plan = options.plan;
  out.preconditioner = options.preconditioner;
  out.normal_matrix = options.normal_matrix;
  return out;
}

/// Two engines where the solve is mixed.
template <class Make>
std::unique_ptr<runtime::Engine> make_engine(const ProblemModel& model,
                                             const SolverOptions& options, const Make& make) {
  runtime::EngineOptions wide = engine_options(options);
  if (options.precision != Precision::mixed) return make(model.model, wide);
  wide.precision = Precision::f64;
  runtime::EngineOptions narrow = wide;
  narrow.precision = Precision::f32;
  return std::make_unique<MixedEngine>(make(model.model, wide), make(model.model, narrow),
                                       model.model);
}

Session cpu_session(const ProblemModel& model, const SolverOptions& options, std::string why) {
  return {.engine = make_engine(model, options, runtime::cpu::make_cpu_engine),
          .why = std::move(why)};
}

/// `model`, `options` and `route` outlive the session's engine.
Session device_session(const ProblemModel& model, const SolverOptions& options, std::string why,
                       bool tiers, Route& route) {
  const bool automatic = options.backend == Backend::automatic;
  Session session{.engine = make_engine(model, options, make_device_engine),
                  .why = std::move(why),
                  .may_leave = automatic};
  if (!automatic || !tiers || options.deterministic) return session;
  auto tiered = std::make_unique<TieredEngine>(
      std::move(session.engine),
      [&model, &options] { return make_engine(model, options, runtime::cpu::make_cpu_engine); },
      [&route](const Error& error) {
        if (!is_device_failure(error.code())) return false;
        route.failed(error);
        return true;
      });
  session.tiers = tiered.get();
  session.engine = std::move(tiered);
  return session;
}

}  // namespace

std::string Session::reason() const { return tiers ? tiers->reason(why) : why; }

Session open_session(const ProblemModel& model, const SolverOptions& options, bool tiers,
                     const char* operation) {
  const bool named =
      names_device(options) || (options.backend == Backend::automatic &&
                                hybrid_executor().scheduler().options().admit_software);
  auto route = std::make_unique<Route>(model, options, operation);
  Session session;
  if (model.model.terms.empty()) {
    session = cpu_session(model, options, "cpu: every residual runs on the host");
    session.route = std::move(route);
    return session;
  }
  try {
    std::optional<DeviceFacts> facts;
    Placement placement =
        place(options, model.instances(), named,
              [&](const SolverOptions& wanted) { return facts.emplace(probe_device(wanted)); });
    if (facts && facts->failed) throw Error(facts->code, facts->problem);
    placement = route->decide(std::move(placement), named, facts ? &*facts : nullptr);
    if (placement.backend == Backend::vulkan && options.backend == Backend::automatic)
      require_self_check(options);
    session = placement.backend == Backend::cpu
                  ? cpu_session(model, options, placement.why)
                  : device_session(model, options, std::move(placement.why), tiers, *route);
  } catch (const Error& error) {
    if (options.backend != Backend::automatic || !is_device_failure(error.code())) throw;
    return take_over(model, options, error, std::move(route));
  }
  session.route = std::move(route);
  return session;
}

Session take_over(const ProblemModel& model, const SolverOptions& options, const Error& failure,
                  std::unique_ptr<Route> route) {
  if (route) route->failed(failure);
  Session session =
      cpu_session(model, options, std::string("cpu: the device failed: ") + failure.what());
  session.route = std::move(route);
  return session;
}

Session on_host(Session session, const ProblemModel& model) {
  auto host = std::make_unique<HostEngine>(std::move(session.engine), *model.problem, model.model,
                                           model.with_losses);
  session.host = host.get();
  session.engine = std::move(host);
  return session;
}

bool is_device_failure(ErrorCode code) { return runtime::hybrid::is_device_failure(code); }

}  // namespace topograd
