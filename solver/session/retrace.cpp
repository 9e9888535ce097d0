// An engine that never evaluates a branch that holds no longer.
#include "retrace.hpp"

#include "../../frontend/functor.hpp"
#include "../../frontend/map/branches.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/outer_engine.hpp"
#include "../model/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using runtime::PointReport;
using runtime::StepReport;
using runtime::StepRequest;

/// Evaluations of one point at most, after the first.
constexpr int kMostRetries = 4;

struct Following {
  const char* call;
  bool narrow;  ///< the engine computes in float
  bool with_losses;
  std::optional<double> guarded_by;  ///< epsilon of DomainPolicy::guarded
};

/// Traces instances with failed branches again, and brings model and engines to what was traced.
class Retracing {
 public:
  using At = runtime::Guards::At;

  Retracing(Engines& engines, const Following& settings, Problem& problem, ProblemModel& model,
            RetraceCounts& counts)
      : engines_(engines),
        settings_(settings),
        problem_(problem),
        model_(model),
        counts_(counts),
        branches_(problem) {}

  /// Evaluates the cost at `at` until all branches hold there, and returns it if it was evaluated
  /// again. If that fails, branches are those of the last accepted point.
  std::optional<double> settle(runtime::Engine& engine, At at) {
    runtime::Guards& guards = *engine.abilities().guards;
    std::optional<double> cost;
    for (int tries = 0; guards.failed_guards() > 0; ++tries) {
      retake(engine, at, tries);
      cost = at == At::trial ? guards.trial_cost() : engine.cost();
    }
    return cost;
  }
  /// The point that was settled last is accepted.
  void keep() { branches_.keep(); }
  /// The last trial was not accepted: its branches go back.
  void take_back() {
    const std::size_t moved = branches_.undo();
    counts_.retraces -= moved;
    if (moved > 0) follow();
  }
  /// Changes whenever the model does.
  std::uint64_t revision() const { return model_.model.revision; }
  /// The last accepted point, when branches were last traced again; empty: never.
  const std::vector<double>& known_point() const { return known_; }

 private:
  void retake(runtime::Engine& engine, At at, int tries) {
    const std::vector<BranchFailure> failures = find_failures(*engine.abilities().guards, at);
    const auto describe = [&](const BranchFailure& f) { return describe_failure(f); };
    if (failures.empty()) {
      throw Error(ErrorCode::Internal,
                  std::string(settings_.call) + ": the backend counted " +
                      std::to_string(engine.abilities().guards->failed_guards()) +
                      " failed branches and found none");
    }
    if (tries >= kMostRetries) {
      give_up();
      throw Error(ErrorCode::StaleBranch, std::string(settings_.call) + ": the branches of " +
                                              describe(failures.front()) +
                                              " do not settle: they were traced again " +
                                              std::to_string(tries) + " times at one point");
    }
    std::vector<double> x(model_.model.scalars);
    engine.point(x);
    known_ = x;
    if (at == At::trial) engine.abilities().steps->trial_point(x);
    counts_.flips += failures.size();
    counts_.retraces += failures.size();
    try {
      branches_.retake(failures, x, settings_.narrow, describe);
    } catch (const PointRefused&) {
      give_up();
      throw;
    } catch (const Error& error) {
      give_up();
      throw Error(error.code(), std::string(settings_.call) + ": " + error.what());
    } catch (...) {
      give_up();
      throw;
    }
    follow();
  }

  void give_up() {
    branches_.undo();
    follow();
  }

  std::vector<BranchFailure> find_failures(runtime::Guards& guards, At at) const {
    std::vector<BranchFailure> failures;
    for (std::size_t t = 0; t < model_.model.terms.size(); ++t) {
      for (const std::uint32_t instance : guards.failed_instances(t, at))
        failures.push_back({model_.topologies[t], instance});
    }
    return failures;
  }

  std::string describe_failure(const BranchFailure& failure) const {
    for (std::size_t t = 0; t < model_.topologies.size(); ++t) {
      if (model_.topologies[t] == failure.topology) return model_.describe(t, failure.instance);
    }
    return "residual #" + std::to_string(failure.instance);
  }

  /// Makes the model of the problem as it is now, and brings the engine to it.
  void follow() {
    ProblemModel next =
        make_model(settings_.call, problem_, settings_.with_losses, model_.constraints);
    if (settings_.guarded_by) guard_domains(next, *settings_.guarded_by);
    next.model.revision = model_.model.revision + 1;
    engines_.refresh_inside(next.model);
    std::swap(model_, next);  // what the engine refers to keeps its address
    std::ranges::move(next.own_topologies, std::back_inserter(old_topologies_));
  }

  Engines& engines_;
  Following settings_;
  Problem& problem_;
  ProblemModel& model_;
  RetraceCounts& counts_;
  Branches branches_;
  std::vector<std::unique_ptr<ir::Topology>> old_topologies_;  // terms that stayed refer to them
  std::vector<double> known_;
};

class FollowingEngine final : public runtime::OuterEngine,
                              public runtime::DampedSteps,
                              public runtime::StepLengths,
                              public runtime::SecondDerivatives,
                              public runtime::SeveralValues,
                              public runtime::KnownPoint {
 public:
  FollowingEngine(Engines& engines, const Following& settings, Problem& problem,
                  ProblemModel& model, RetraceCounts& counts)
      : OuterEngine(engines.here()), retracing_(engines, settings, problem, model, counts) {}

  /// Evaluations run at once: branches are settled before anything is evaluated. There is no linear
  /// system for others: one that is made again, because branches went back, has its own gradient.
  runtime::Abilities abilities() override {
    const runtime::Abilities able = inner().abilities();
    return {.steps = this,
            .step_lengths = able.step_lengths ? this : nullptr,
            .elimination = able.elimination,
            .second_derivatives = able.second_derivatives ? this : nullptr,
            .several_values = this,
            .known_point = this,
            .plans = able.plans,
            .measurements = able.measurements};
  }

  void refresh(const runtime::Model& model) override {
    inner().refresh(model);
    settled_ = false;
    linear_.reset();
  }

  void set_point(std::span<const double> x) override {
    retracing_.take_back();
    inner().set_point(x);
    settled_ = false;
    linear_.reset();
  }
  void point(std::span<double> x) override {
    retracing_.take_back();
    inner().point(x);
  }
  bool last_known_point(std::span<double> x) override {
    if (inner().abilities().known_point->last_known_point(x)) return true;
    const std::vector<double>& known = retracing_.known_point();
    if (known.size() != x.size()) return false;
    std::ranges::copy(known, x.begin());
    return true;
  }
  std::uint64_t steps_after_known_point() const override {
    return inner().abilities().known_point->steps_after_known_point();
  }

  double cost() override {
    try {
      return settled().cost();
    } catch (const PointRefused&) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
  void residuals(std::span<double> out) override { settled().residuals(out); }
  void gradient(std::span<double> out) override { settled().gradient(out); }
  /// The cost tells whether branches hold.
  void evaluate(const runtime::Values& wanted) override {
    runtime::evaluate_unless_refused(*this, wanted);
  }
  void jacobian(std::size_t term, std::span<double> values) override {
    settled().jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { settled().jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override {
    settled().vjp(seeds, out);
  }
  void jtjp(std::span<const double> p, std::span<double> out) override { settled().jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override {
    runtime::second_derivatives(settled()).hvp(p, out);
  }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    runtime::second_derivatives(settled()).hessian(term, project, values);
  }

  PointReport linearize() override {
    settled();
    const PointReport report = steps_inside().linearize();
    linear_ = retracing_.revision();
    return report;
  }
  StepReport try_step(const StepRequest& request) override {
    settled();
    runtime::DampedSteps& steps = steps_inside();
    if (linear_ != retracing_.revision()) steps.linearize();
    linear_ = retracing_.revision();
    StepRequest trial = request;
    trial.rule.reset();  // the branches of a trial are settled before it is judged
    return settle_trial(steps.try_step(trial));
  }
  StepReport try_step(std::span<const double> delta) override {
    settled();
    return settle_trial(steps_inside().try_step(delta));
  }
  StepReport rescale_step(double length) override {
    retracing_.take_back();
    return settle_trial(runtime::step_lengths(inner()).rescale_step(length));
  }
  void begin_solve() override { steps_inside().begin_solve(); }
  void transfer(ir::StateRecord& record) override { steps_inside().transfer(record); }
  void trial_point(std::span<double> x) override { steps_inside().trial_point(x); }
  runtime::PreconditionerUse preconditioner() const override {
    return steps_inside().preconditioner();
  }
  runtime::NormalMatrixUse normal_matrix() const override { return steps_inside().normal_matrix(); }
  void accept() override {
    steps_inside().accept();
    retracing_.keep();
    settled_ = true;
    linear_.reset();
  }

 private:
  using At = runtime::Guards::At;

  runtime::DampedSteps& steps_inside() const { return *inner().abilities().steps; }

  /// The engine with all branches right at its point.
  runtime::Engine& settled() {
    retracing_.take_back();
    if (!settled_) {
      inner().cost();
      retracing_.settle(inner(), At::point);
      retracing_.keep();
      settled_ = true;
    }
    return inner();
  }

  StepReport settle_trial(StepReport report) {
    if (!std::isfinite(report.step_norm)) {
      // There is no point to trace anything at; such a trial is refused.
      report.trial_cost = std::numeric_limits<double>::quiet_NaN();
      return report;
    }
    const bool settled = std::exchange(settled_, false);  // if tracing fails
    try {
      report.trial_cost = retracing_.settle(inner(), At::trial).value_or(report.trial_cost);
      settled_ = settled;
    } catch (const PointRefused&) {
      report.trial_cost = std::numeric_limits<double>::quiet_NaN();
    }
    return report;
  }

  Retracing retracing_;
  bool settled_ = false;                 // all branches are right at the engine's point
  std::optional<std::uint64_t> linear_;  // revision of the model that it was linearised with there
};

}  // namespace

void follow_branches(Session& session, const char* call, Problem& problem, ProblemModel& model,
                     const SolverOptions& options, RetraceCounts& counts, bool with_losses) {
  session.follows_branches = Branches(problem).any();
  if (!session.follows_branches) return;
  Following settings{.call = call,
                     .narrow = options.precision == Precision::f32,
                     .with_losses = with_losses,
                     .guarded_by = {}};
  if (options.domain == DomainPolicy::guarded) settings.guarded_by = options.domain_epsilon;
  session.engines->put_around(
      std::make_unique<FollowingEngine>(*session.engines, settings, problem, model, counts));
}

}  // namespace topograd
