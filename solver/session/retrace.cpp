// An engine that never evaluates a branch that holds no longer.
#include "retrace.hpp"

#include "../../frontend/map/branches.hpp"
#include "../../frontend/refused.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/engine/forwarding_engine.hpp"
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

class FollowingEngine final : public runtime::ForwardingEngine {
 public:
  FollowingEngine(std::unique_ptr<runtime::Engine> engine, const Following& settings,
                  Problem& problem, ProblemModel& model, RetraceCounts& counts)
      : inner_(std::move(engine)),
        settings_(settings),
        problem_(problem),
        model_(model),
        counts_(counts),
        branches_(problem) {}

  runtime::Abilities abilities() override {
    return {.elimination = inner_->abilities().elimination};
  }
  void refresh(const runtime::Model& model) override {
    inner_->refresh(model);
    settled_ = linear_ = false;
  }

  void set_point(std::span<const double> x) override {
    take_back();
    inner_->set_point(x);
    settled_ = linear_ = false;
  }
  void point(std::span<double> x) override {
    take_back();
    inner_->point(x);
  }
  bool last_known_point(std::span<double> x) override {
    if (inner_->last_known_point(x)) return true;
    if (known_.size() != x.size()) return false;
    std::copy(known_.begin(), known_.end(), x.begin());
    return true;
  }

  double cost() override {
    try {
      settle();
    } catch (const PointRefused&) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return inner_->cost();
  }
  void residuals(std::span<double> out) override { settled().residuals(out); }
  void gradient(std::span<double> out) override { settled().gradient(out); }
  /// The cost tells whether branches hold.
  void evaluate(const runtime::Values& wanted) override { evaluate_unless_refused(wanted); }
  void jacobian(std::size_t term, std::span<double> values) override {
    settled().jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { settled().jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override {
    settled().vjp(seeds, out);
  }
  void jtjp(std::span<const double> p, std::span<double> out) override { settled().jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { settled().hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    settled().hessian(term, project, values);
  }

  /// Runs at once: branches are settled before anything is evaluated.
  std::unique_ptr<runtime::Pending> begin(runtime::KernelKind kind, std::span<const double> x,
                                          std::span<const double> p,
                                          std::span<double> out) override {
    return Engine::begin(kind, x, p, out);
  }
  bool runs_asynchronously() const override { return false; }

  PointReport linearize() override {
    const PointReport report = settled().linearize();
    linear_ = true;
    return report;
  }
  StepReport try_step(const StepRequest& request) override {
    runtime::Engine& engine = settled();
    if (!std::exchange(linear_, true)) engine.linearize();
    StepRequest trial = request;
    trial.rule.reset();  // the branches of a trial are settled before it is judged
    return settle_trial(engine.try_step(trial));
  }
  StepReport try_step(std::span<const double> delta) override {
    return settle_trial(settled().try_step(delta));
  }
  StepReport rescale_step(double length) override {
    take_back();
    return settle_trial(inner_->rescale_step(length));
  }
  /// Refused: a linearisation that is repeated, because branches went back, has its own gradient.
  void set_gradient(std::span<const double> g) override { Engine::set_gradient(g); }
  void accept() override {
    inner_->accept();
    branches_.keep();
    settled_ = true;
    linear_ = false;
  }

  runtime::Timing time(runtime::KernelKind kind, int warm_ups, int samples) override {
    return settled().time(kind, warm_ups, samples);
  }
  runtime::Timing time_step(int iterations, double damping, int samples) override {
    return settled().time_step(iterations, damping, samples);
  }

 private:
  runtime::Engine& target() const override { return *inner_; }

  /// The engine with all branches right at its point.
  runtime::Engine& settled() {
    settle();
    return *inner_;
  }

  void settle() {
    take_back();
    if (settled_) return;
    inner_->cost();
    for (int tries = 0; inner_->failed_guards() > 0; ++tries) {
      retake(At::point, tries);
      inner_->cost();
    }
    branches_.keep();
    settled_ = true;
  }

  StepReport settle_trial(StepReport report) {
    if (!std::isfinite(report.step_norm)) {
      // There is no point to trace anything at; such a trial is refused.
      report.trial_cost = std::numeric_limits<double>::quiet_NaN();
      return report;
    }
    try {
      for (int tries = 0; inner_->failed_guards() > 0; ++tries) {
        retake(At::trial, tries);
        report.trial_cost = inner_->trial_cost();
      }
    } catch (const PointRefused&) {
      report.trial_cost = std::numeric_limits<double>::quiet_NaN();
    }
    return report;
  }

  /// The last trial was not accepted: its branches go back.
  void take_back() {
    const std::size_t moved = branches_.undo();
    counts_.retraces -= moved;
    if (moved > 0) follow();
  }

  void retake(At at, int tries) {
    const std::vector<BranchFailure> failures = find_failures(at);
    const auto describe = [&](const BranchFailure& f) { return describe_failure(f); };
    if (failures.empty()) {
      throw Error(ErrorCode::Internal, std::string(settings_.call) + ": the backend counted " +
                                           std::to_string(inner_->failed_guards()) +
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
    inner_->point(x);
    known_ = x;
    if (at == At::trial) inner_->trial_point(x);
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
    settled_ = false;
  }

  std::vector<BranchFailure> find_failures(At at) {
    std::vector<BranchFailure> failures;
    for (std::size_t t = 0; t < model_.model.terms.size(); ++t) {
      for (const std::uint32_t instance : inner_->failed_instances(t, at))
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
    ProblemModel next = make_model(settings_.call, problem_, settings_.with_losses);
    if (settings_.guarded_by) guard_domains(next, *settings_.guarded_by);
    next.model.revision = model_.model.revision + 1;
    inner_->refresh(next.model);
    std::swap(model_, next);  // what the engine refers to keeps its address
    std::ranges::move(next.own_topologies, std::back_inserter(old_topologies_));
    linear_ = false;
  }

  std::unique_ptr<runtime::Engine> inner_;
  Following settings_;
  Problem& problem_;
  ProblemModel& model_;
  RetraceCounts& counts_;
  Branches branches_;
  std::vector<std::unique_ptr<ir::Topology>> old_topologies_;  // terms that stayed refer to them
  std::vector<double> known_;  // the last accepted point, when branches were last traced again
  bool settled_ = false;       // all branches are right at the engine's point
  bool linear_ = false;        // the engine was linearised there, and refreshed no more since
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
  session.engine = std::make_unique<FollowingEngine>(std::move(session.engine), settings, problem,
                                                     model, counts);
}

}  // namespace topograd
