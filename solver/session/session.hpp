// An engine for a problem, in the place that was chosen for it.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../model/model.hpp"
#include "placement.hpp"
#include "routing.hpp"
#include "tiered_engine.hpp"

#include <memory>

namespace topograd {

class HostEngine;

struct Session {
  std::unique_ptr<runtime::Engine> engine;
  std::string why;                ///< why it runs there
  bool follows_branches = false;  ///< the engine does, and changes the model for it (retrace.hpp)
  bool may_leave = false;         ///< on a device under `automatic`: the CPU takes over if it fails
  const TieredEngine* tiers = nullptr;  ///< inside of `engine`, where the interpreter serves first
  HostEngine* host = nullptr;           ///< `engine`, where that is one (on_host())
  std::unique_ptr<Route> route;         ///< what decided

  /// What kernels run on in the long run.
  runtime::Backend planned_backend() const {
    return tiers ? runtime::Backend::vulkan : engine->backend();
  }
  /// Why it runs where it does now.
  std::string reason() const;
};

/// Chooses the place (place()) and makes the engine there. Under `automatic` a device that cannot
/// be opened, or that refuses the kernels, means the CPU, and `why` says so; and unless
/// `deterministic` is set the interpreter serves while the device's kernels are made
/// (tiered_engine.hpp).
///
///   model, options  outlive the session; options are resolved
///   operation       for the executor's thresholds and statistics: a literal
///   tiers           false: the device serves from the start, and its first evaluations wait
///
/// Throws what place() and a forced engine throw.
Session open_session(const ProblemModel& model, const SolverOptions& options, bool tiers = true,
                     const char* operation = "evaluate");

/// The interpreter in the place of a device that failed; the executor is told.
///
///   route  of the session that failed, whose engine goes first
Session take_over(const ProblemModel& model, const SolverOptions& options, const Error& failure,
                  std::unique_ptr<Route> route);

/// Puts what only the host can do around the session's engine (host/host_engine.hpp).
///
///   model  what the engine was made from; outlives the session
Session on_host(Session session, const ProblemModel& model);

/// True for failures of devices and their drivers, as opposed to mistakes of the caller.
bool is_device_failure(ErrorCode code);

}  // namespace topograd
