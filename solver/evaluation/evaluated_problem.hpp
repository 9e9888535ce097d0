// A problem as an Evaluator follows it: its model, and an engine at any point.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../evaluator.hpp"
#include "../model/nonfinite.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"
#include "begun_evaluations.hpp"
#include "evaluation_times.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace topograd {

/// Brings the engine that serves to a point for each evaluation, and its times to the route. Under
/// `automatic` the CPU takes over from a device that fails.
class EvaluatedProblem {
 public:
  /// The problem outlives it. Throws as Evaluator's constructor.
  EvaluatedProblem(Problem& problem, const SolverOptions& options, Losses losses);

  const runtime::Model& model() const { return model_.model; }
  /// Grows when anything of the model changes.
  std::uint64_t revision() const { return revision_; }
  const Session& session() const { return session_; }
  runtime::Engine& engine() const { return session_.engine(); }
  bool has_host_blocks() const { return !problem_.host_blocks().empty(); }
  /// Evaluations that were begun on its engines.
  BegunEvaluations& begun() { return begun_; }
  /// Counts of this session and those before it.
  runtime::EngineStats stats() const;

  /// Follows changes of the problem since the last call: data, uniforms and flags in place,
  /// anything else with a new engine, whose kernels are in the caches. Long expressions get kernels
  /// where `pass` has second derivatives.
  void follow(runtime::Pass pass);
  /// Runs `f`, an evaluation of this kind, on the engine at x, or at the caller's values; once more
  /// on the CPU if it takes over.
  template <class F>
  auto at(runtime::Pass pass, std::optional<Numbers> x, const F& f);
  /// The Hessian of the cost times p where all blocks are long expressions, by sweeps over their
  /// nodes; false if kernels are needed.
  bool hvp_on_host(std::optional<Numbers> x, std::span<const double> p, std::span<double> out);
  /// Throws Error{NonFinite} that names an instance without second derivative at x, or at the
  /// caller's values. Cost: that of a gradient on the CPU for a new x and a problem with lengths.
  void require_second_derivatives(std::optional<Numbers> x);

  /// True if the CPU takes over after this error, which is a device's that `automatic` had chosen.
  bool may_take_over(const Error& error) const;
  void take_over(const Error& failure);
  /// Finishes what was begun, and reports the session to the route as one task.
  void end_session();

 private:
  using Clock = std::chrono::steady_clock;

  ProblemModel make() const;
  void open(Session opened);
  void move_to(runtime::Pass pass, std::optional<Numbers> x);
  /// Brings branches to the engine's point, before terms are read by the model.
  void settle();
  /// Reports the time of an evaluation to the route, if it ran on the planned backend.
  void teach(runtime::Pass pass, Clock::time_point begin);

  Problem& problem_;  // the caller's
  Problem view_;      // of the same, which keeps what the model refers to
  SolverOptions options_;
  Losses losses_;
  ProblemModel model_;
  Versions versions_;
  std::uint64_t revision_ = 0;
  RetraceCounts counts_;
  Session session_;
  runtime::EngineStats earlier_;  // of the sessions before it
  EvaluationTimes times_;         // of the session's engine
  double busy_seconds_ = 0;       // of the session, without asynchronous calls
  BegunEvaluations begun_;
  std::vector<double> x_;  // scratch
  std::optional<KinkCheck> kinks_;
  std::uint64_t kinks_revision_ = 0;  // of the model that they describe
  std::vector<double> smooth_;        // the last x without kinks
};

/// Throws Error{Shape} unless an argument of an Evaluator has `expected` numbers.
void check_numbers(const char* what, std::size_t size, std::size_t expected);

template <class F>
auto EvaluatedProblem::at(runtime::Pass pass, std::optional<Numbers> x, const F& f) {
  try {
    const Clock::time_point begin = Clock::now();
    move_to(pass, x);
    auto result = f(engine());
    teach(pass, begin);
    return result;
  } catch (const Error& error) {
    if (!may_take_over(error)) throw;
    take_over(error);
    move_to(pass, x);
    return f(engine());
  }
}

}  // namespace topograd
