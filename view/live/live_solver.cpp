// The thread of a live solver: commands, solves, frames.
#include "live_solver.hpp"

#include "../../api/source.hpp"
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "exchange.hpp"
#include "frame_maker.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace topograd::view {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // Clang 16 does not deduce it

constexpr double kMilliseconds = 1000;

/// Ends a solve after the first accepted step beyond the budget: rejected ones would be tried again
/// by the next solve. While commands wait, some tries are enough. The end of the live solver ends
/// it at once.
SolverOptions bounded(SolverOptions options, double budget_ms, const std::atomic<bool>& ends,
                      std::function<bool(const IterationSummary&)> enough_tries) {
  options.callback = [budget_ms, &ends,
                      enough = std::move(enough_tries)](const IterationSummary& step) {
    const bool suffices = enough(step) || step.step_is_successful;
    const bool is_late =
        step.iteration > 0 && kMilliseconds * step.cumulative_time_in_seconds > budget_ms;
    return (is_late && suffices) || ends.load() ? CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY
                                                : CallbackReturn::SOLVER_CONTINUE;
  };
  return options;
}

}  // namespace

struct LiveSolver::Impl {
  /// The share of a frame that tries of steps may take while commands wait: each frame has work
  /// besides them.
  class TryBudget {
   public:
    /// True if the tries of the present solve have had their share.
    bool is_spent(const IterationSummary& step) {
      constexpr int kTries = 3;
      constexpr double kShare = 1.0 / 3;  // of the other work
      if (step.iteration == 0) until_tries_ = step.cumulative_time_in_seconds;
      const double tried_ms = kMilliseconds * (step.cumulative_time_in_seconds - until_tries_);
      return step.iteration >= kTries && tried_ms >= kShare * other_ms_;
    }
    /// A frame with this solve has taken so long.
    void end_frame(const Summary& summary, double frame_ms) {
      const double end =
          summary.iterations.empty() ? 0 : summary.iterations.back().cumulative_time_in_seconds;
      other_ms_ = frame_ms - kMilliseconds * std::max(0.0, end - until_tries_);
    }

   private:
    double until_tries_ = 0;  // seconds of the present solve before its first try
    double other_ms_ = 0;     // of the last frame, without its tries
  };

  /// Says if there is anything to solve.
  struct Activity {
    bool paused = false, settled = false, steps_once = false;

    bool has_work() const { return !settled && (!paused || steps_once); }
  };

  /// The positions, unknowns and weights that Reset restores.
  struct Start {
    explicit Start(const Subject& subject)
        : positions(3 * subject.shown), x(subject.problem->parameter_count()) {
      subject.show(positions);
      subject.problem->read_x(x);
      for (const Slider& slider : subject.sliders)
        weights.push_back(subject.problem->value(slider.uniform));
    }
    void restore(const Subject& to) const {
      to.problem->write_x(x);
      for (std::size_t k = 0; k < to.sliders.size(); ++k)
        to.problem->set(to.sliders[k].uniform, weights[k]);
    }

    std::vector<double> positions;  ///< three for each shown point
    std::vector<double> x, weights;
  };

  Impl(Subject made, const LiveOptions& options, std::function<void()> on_change)
      : subject(std::move(made)),
        changed(std::move(on_change)),
        solver_options(bounded(resolved(options.solver), options.budget_ms, exchange.ends(),
                               [this](const IterationSummary& step) {
                                 return tries.is_spent(step) && exchange.has_commands();
                               })),
        start(subject),
        frames(subject, start.positions),
        activity{.paused = options.paused} {
    const auto points = static_cast<std::ptrdiff_t>(3 * subject.points.size());
    handles = Handles({start.positions.begin(), start.positions.begin() + points}, subject.handles);
    topologies = topology_table(*subject.problem);
    kernels = source(*subject.problem);
    solver.emplace(*subject.problem, solver_options);
    publish_state();
    thread = std::thread([this] { run(); });
  }
  ~Impl() {
    exchange.end();
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run();
  /// Waits for commands or work. Returns false at the end.
  bool wait_for_work();
  void take_commands();
  void apply(const Command& command);
  void solve();
  void publish_state();
  void fail(const std::string& what);
  void choose(const Choose& choice);

  Subject subject;
  std::function<void()> changed;
  Exchange exchange;

  // Used by the live solver's thread alone.
  TryBudget tries;
  SolverOptions solver_options;
  Start start;
  FrameMaker frames;
  Handles handles;
  std::optional<Solver> solver;
  std::uint64_t applied = 0, published = 0;  // versions of handles
  std::uint64_t drag = 0;                    // serial of the newest
  Coloring coloring = Coloring::none;
  Activity activity;
  bool state_changed = false;
  std::string message;

  std::string topologies, kernels;
  std::thread thread;
};

void LiveSolver::Impl::run() {
  while (wait_for_work()) {
    frames.start_clock();
    take_commands();
    if (state_changed || handles.version() != published) publish_state();
    if (!activity.has_work()) continue;
    activity.steps_once = false;
    try {
      solve();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
}

bool LiveSolver::Impl::wait_for_work() {
  if (!activity.has_work() && exchange.wait_for_commands()) frames.rest();
  return !exchange.ends();
}

void LiveSolver::Impl::take_commands() {
  for (const Command& command : exchange.take_commands()) {
    try {
      apply(command);
    } catch (const std::exception& error) {
      message = error.what();
      state_changed = true;
    }
  }
}

void LiveSolver::Impl::apply(const Command& command) {
  activity.settled = false;
  if (!std::holds_alternative<Drag>(command)) {
    state_changed = true;
    if (!std::holds_alternative<Step>(command)) message.clear();
  }
  std::visit(
      Overloaded{
          [&](const Grab& grab) {
            std::vector<double> present(start.positions.size());
            subject.show(present);
            handles.remember();
            try {
              handles.grab(grab.handle, grab.vertex, grab.radius, present);
            } catch (...) {
              handles.undo();
              throw;
            }
          },
          [&](const Drag& moved) {
            if (moved.begins) {
              handles.remember();
              state_changed = true;
            }
            handles.drag(moved.handle, moved.position);
            drag = std::max(drag, moved.serial);
          },
          [&](const Release& release) {
            if (handles.all().contains(release.handle)) handles.remember();
            handles.release(release.handle);
          },
          [&](const Weigh& weight) {
            const auto slider = std::ranges::find(subject.sliders, weight.slider, &Slider::name);
            if (slider == subject.sliders.end() || !(weight.value >= slider->low) ||
                !(weight.value <= slider->high))
              throw Error(ErrorCode::InvalidArgument,
                          "weigh: expected a weight of the problem within its range, got \"" +
                              weight.slider + "\"");
            subject.problem->set(slider->uniform, weight.value);
          },
          [&](const Color& color) { coloring = color.coloring; },
          [&](const Choose& choice) { choose(choice); },
          [&](const Pause& pause) { activity.paused = pause.paused; },
          [&](const Step&) { activity.steps_once = true; },
          [&](const Undo&) { handles.undo(); },
          [&](const Reset&) {
            handles.reset();
            start.restore(subject);
          },
      },
      command);
}

void LiveSolver::Impl::choose(const Choose& choice) {
  SolverOptions options = solver_options;
  if (!choice.backend.empty()) options.backend = parse_backend(choice.backend);
  if (!choice.precision.empty()) options.precision = parse_solve_precision(choice.precision);
  if (!choice.method.empty()) options.method = parse_method(choice.method);
  Solver made(*subject.problem, options);
  solver = std::move(made);
  solver_options = options;
}

void LiveSolver::Impl::solve() {
  if (applied != handles.version()) {
    set_pulls(*subject.problem, subject.pulls, handles.targets(), handles.switches());
    applied = handles.version();
  }
  Frame frame = frames.begin(drag);
  const double before_ms = frames.milliseconds();
  const Summary summary = solver->solve();
  frames.add(frame, summary, frames.milliseconds() - before_ms);
  activity.settled = frame.settled;
  exchange.publish(summary.full_report());
  frames.show(frame, coloring);
  exchange.publish(std::move(frame));
  if (changed) changed();
  tries.end_frame(summary, frames.milliseconds());
}

void LiveSolver::Impl::publish_state() {
  State made{.paused = activity.paused,
             .coloring = coloring,
             .backend = std::string(name(solver_options.backend)),
             .precision = std::string(codegen::name(solver_options.precision)),
             .method = std::string(name(solver_options.method)),
             .undo_depth = handles.undo_depth(),
             .handles = handles.all(),
             .message = message};
  for (const Slider& slider : subject.sliders)
    made.weights.emplace_back(slider.name, subject.problem->value(slider.uniform));
  published = handles.version();
  state_changed = false;
  exchange.publish(std::move(made));
  if (changed) changed();
}

void LiveSolver::Impl::fail(const std::string& what) {
  message = what;
  activity.paused = true;
  publish_state();
}

LiveSolver::LiveSolver(Subject subject, const LiveOptions& options, std::function<void()> changed)
    : impl_(std::make_unique<Impl>(std::move(subject), options, std::move(changed))) {}
LiveSolver::~LiveSolver() = default;

bool LiveSolver::post(Command command) { return impl_->exchange.post(std::move(command)); }
std::shared_ptr<const Frame> LiveSolver::frame() const { return impl_->exchange.frame(); }
std::shared_ptr<const State> LiveSolver::state() const { return impl_->exchange.state(); }
std::shared_ptr<const Frame> LiveSolver::wait(std::uint64_t number, double seconds) const {
  return impl_->exchange.wait(number, seconds);
}
std::string LiveSolver::report() const { return impl_->exchange.report(); }
const Subject& LiveSolver::subject() const { return impl_->subject; }
const std::vector<double>& LiveSolver::start() const { return impl_->start.positions; }
const std::string& LiveSolver::topologies() const { return impl_->topologies; }
const std::string& LiveSolver::kernels() const { return impl_->kernels; }

}  // namespace topograd::view
