// A problem as an Evaluator follows it: its model, an engine at any point, and begun evaluations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../asynchronous.hpp"
#include "../evaluator.hpp"
#include "../model/nonfinite.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"

namespace topograd {

/// An evaluation that was begun: by the engine itself, or on a thread of the pool. One thread at a
/// time.
struct AsyncState {
  using Clock = std::chrono::steady_clock;

  bool ready() const;
  /// Waits for the results and completes them; never throws, keeps what was thrown.
  void finish();

  runtime::Pass pass = runtime::Pass::cost;
  std::vector<double> x, p;                       ///< where
  Eigen::VectorXd out;                            ///< results, once finished
  std::exception_ptr error;                       ///< instead of results
  std::shared_ptr<const runtime::Engine> engine;  ///< outlives `begun`
  std::unique_ptr<runtime::Pending> begun;        ///< by the engine
  std::future<void> running;                      ///< on the pool
  /// Set by the Evaluator: masks results, or evaluates again if a device failed.
  std::function<void(AsyncState&)> complete;
  std::shared_ptr<AsyncFigures> figures;
  Clock::time_point since;
  bool finished = false;
};

/// Runs on a thread of TBB's pool.
std::future<void> run_on_pool(std::function<void()> task);

/// Collects by kind: evaluations of one kind are alike, those of two are not. The first of a kind
/// brings kernels, tables and buffers, and does not count. Not safe for several threads.
class EvaluationTimes {
 public:
  /// The median, when there are enough for one: of the first few, then of more at a time.
  ///
  ///   us           of one evaluation with everything around it
  ///   compiled_ms  that kernels have taken so far: times during which that grows are left out
  std::optional<double> add(runtime::Pass pass, double us, double compiled_ms);
  /// Another engine comes.
  void clear() { kinds_.clear(); }

 private:
  struct Kind {
    double compiled_ms = -1;  // before anything ran
    std::size_t wanted = kFew;
    std::vector<double> us;
  };
  static constexpr std::size_t kFew = 3, kMany = 32;

  std::map<runtime::Pass, Kind> kinds_;
};

/// The evaluations of one Evaluator. It does not keep results that nobody holds.
class PendingEvaluations {
 public:
  void add(const std::shared_ptr<AsyncState>& state) {
    std::erase_if(begun_, [](const auto& held) { return held.expired(); });
    begun_.push_back(state);
  }
  /// Adds one that runs on the pool, after all that were added before.
  void add_on_pool(const std::shared_ptr<AsyncState>& state) { on_pool_ = state; }

  /// Finishes evaluations whose results nobody has asked for yet.
  void finish() {
    for (const auto& held : std::exchange(begun_, {})) {
      if (const auto state = held.lock()) state->finish();
    }
  }
  /// An engine that does not run asynchronously is used by one thread at a time.
  void wait_for_pool() const {
    if (const auto state = on_pool_.lock()) state->finish();
  }

 private:
  std::vector<std::weak_ptr<AsyncState>> begun_;
  std::weak_ptr<AsyncState> on_pool_;  // the last one that ran there
};

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
  PendingEvaluations& begun() { return begun_; }
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
  PendingEvaluations begun_;
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
