// The engines for a problem on the backend that was chosen for it, and values at a point from them.
#pragma once

#include <memory>
#include <string>

#include "../../runtime/model/model.hpp"
#include "../evaluator.hpp"
#include "../model/model.hpp"
#include "../plan/decide.hpp"
#include "../solve_group.hpp"
#include "engines.hpp"
#include "routing.hpp"

namespace topograd {

class HostEngine;

struct Session {
  std::unique_ptr<Engines> engines;
  ProblemFacts problem;
  MachineFacts machine;
  Plan plan;                      ///< from these; open_session() decides the backend
  bool follows_branches = false;  ///< the engine does, and changes the model for it (retrace.hpp)
  HostEngine* host = nullptr;     ///< engine(), where that is one (on_host())
  std::unique_ptr<Route> route;   ///< what decided
  double search_seconds = 0;      ///< of looking for devices; 0: nobody looked

  /// The engine that serves now.
  runtime::Engine& engine() const { return engines->here(); }
  /// The backend that kernels run on once all of them are there.
  runtime::Backend planned_backend() const {
    return plan.backend.backend == Backend::cpu ? runtime::Backend::cpu : runtime::Backend::vulkan;
  }
  /// Why it runs where it does now.
  std::string reason() const;
};

/// Decides the backend (plan/decide.hpp) and makes the engines. Under `automatic` a device
/// that cannot be opened, or that refuses the kernels, means the CPU, and `why` says so; and unless
/// `deterministic` is set the interpreter serves while the device's kernels are made
/// (engines.hpp).
///
///   model, options  outlive the session; options are resolved
///   problem         of steps, where they are made; open_session() adds what the model says
///   operation       for the executor's thresholds and statistics: a literal
///
/// Throws what decide() and a forced engine throw.
///   make       makes the interpreter, or what evaluates in its place; empty: make_cpu_engine()
Session open_session(const ProblemModel& model, const SolverOptions& options,
                     const ProblemFacts& problem = {}, const char* operation = "evaluate",
                     const MakeEngine& make = {});

/// The interpreter in the place of a device that failed; the executor is informed.
///
///   failed  gives its facts and its route away; its engines go first
Session take_over(const ProblemModel& model, const SolverOptions& options, const Error& failure,
                  Session& failed);

/// Puts what only the host can do around the session's engine (host/host_engine.hpp).
///
///   model  what the engine was made from; outlives the session
Session on_host(Session session, const ProblemModel& model);

/// Looks for the device that the options choose (probe_device()); this process then has looked.
///
///   seconds  that it took
DeviceFacts look_for_device(const SolverOptions& options, double& seconds);
/// Adds the time of a solve that stayed on the CPU although a device might have served.
void add_short_solve(double seconds);
/// The sum of these times.
double seconds_of_short_solves();
/// True if such solves have taken so long in this process that the next one should look.
bool short_solves_add_up();

/// True for failures of devices and their drivers, as opposed to mistakes of the caller.
bool is_device_failure(ErrorCode code);

/// Derivatives by fixed scalars become zero: engines may give them as if these were free.
void mask_fixed(const runtime::Model& model, Eigen::VectorXd& gradient);

/// Values on an engine at its point. Throws what the engine throws.
Evaluation values_of(runtime::Engine& engine, const runtime::Model& model, const Wanted& wanted);

/// Values at x, on the engine that serves such an evaluation.
///
///   follows_branches  the engine may change the model: its branches are brought to x first
///   x                 model.scalars numbers
Evaluation values_at(Engines& engines, bool follows_branches, const runtime::Model& model,
                     Numbers x, const Wanted& wanted);

}  // namespace topograd
