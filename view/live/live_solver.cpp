// The thread of a live solver: commands, solves, frames.
#include "live_solver.hpp"

#include "../../api/source.hpp"
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "colors.hpp"
#include "mailbox.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

namespace topograd::view {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

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
  Impl(Subject made, const LiveOptions& options, std::function<void()> on_change)
      : subject(std::move(made)),
        changed(std::move(on_change)),
        solver_options(
            bounded(resolved(options.solver), options.budget_ms, ends,
                    [this](const IterationSummary& step) { return enough_tries(step); })),
        start(3 * subject.shown),
        first_x(subject.problem->parameter_count()),
        colors(subject, start),
        paused(options.paused) {
    subject.show(start);
    subject.problem->read_x(first_x);
    const std::size_t points = subject.points.size();
    handles = Handles({start.begin(), start.begin() + static_cast<std::ptrdiff_t>(3 * points)},
                      subject.handles);
    topologies = topology_table(*subject.problem);
    kernels = source(*subject.problem);
    for (const Slider& slider : subject.sliders)
      first_weights.push_back(subject.problem->value(slider.uniform));
    solver.emplace(*subject.problem, solver_options);
    publish_state();
    thread = std::thread([this] { run(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    wakes.notify_all();
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run();
  /// Waits for commands or work. Returns false at the end.
  bool wait_for_work();
  void take_commands();
  /// True if commands wait, and tries have taken their share of the frame: each frame has work
  /// besides them.
  bool enough_tries(const IterationSummary& step) {
    constexpr int kTries = 3;
    constexpr double kShare = 1.0 / 3;  // of the other work
    if (step.iteration == 0) until_tries = step.cumulative_time_in_seconds;
    const double tried_ms = kMilliseconds * (step.cumulative_time_in_seconds - until_tries);
    return step.iteration >= kTries && tried_ms >= kShare * other_ms && commands_wait();
  }
  bool commands_wait() const {
    const std::lock_guard lock(mutex);
    return !mailbox.empty();
  }
  void apply(const Command& command);
  void solve();
  void publish(Frame frame);
  void publish_state();
  void fail(const std::string& what);
  void choose(const Choose& choice);

  Subject subject;
  std::function<void()> changed;

  std::atomic<bool> ends = false;  // written under the mutex

  // Used by the live solver's thread alone.
  SolverOptions solver_options;
  std::vector<double> start, first_x, first_weights;
  Colors colors;
  Handles handles;
  std::optional<Solver> solver;
  std::uint64_t applied = 0, published = 0;  // versions of handles
  std::uint64_t drag = 0, compiled = 0, frames = 0;
  Coloring coloring = Coloring::none;
  bool paused = false, settled = false, steps_once = false, state_changed = false;
  double until_tries = 0;  // seconds of the present solve before its first try
  double other_ms = 0;     // of the last frame, without its tries
  std::string message;
  Rate rate;
  Clock::time_point begun;

  // Shared.
  mutable std::mutex mutex;
  mutable std::condition_variable wakes, arrived;
  Mailbox mailbox;
  std::shared_ptr<const Frame> newest;
  std::shared_ptr<const State> state;
  std::string report;

  std::string topologies, kernels;
  std::thread thread;
};

void LiveSolver::Impl::run() {
  while (wait_for_work()) {
    begun = Clock::now();
    take_commands();
    if (state_changed || handles.version() != published) publish_state();
    if ((paused && !steps_once) || settled) continue;
    steps_once = false;
    try {
      solve();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
}

bool LiveSolver::Impl::wait_for_work() {
  std::unique_lock lock(mutex);
  const auto has_work = [&] {
    return ends || !mailbox.empty() || (!settled && (!paused || steps_once));
  };
  if (!has_work()) {
    wakes.wait(lock, has_work);
    rate.clear();  // rates are those of work
  }
  return !ends;
}

void LiveSolver::Impl::take_commands() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(mutex);
    commands = mailbox.take();
  }
  for (const Command& command : commands) {
    try {
      apply(command);
    } catch (const std::exception& error) {
      message = error.what();
      state_changed = true;
    }
  }
}

void LiveSolver::Impl::apply(const Command& command) {
  settled = false;
  if (!std::holds_alternative<Drag>(command)) {
    state_changed = true;
    if (!std::holds_alternative<Step>(command)) message.clear();
  }
  std::visit(
      Overloaded{
          [&](const Grab& grab) {
            std::vector<double> present(start.size());
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
          [&](const Pause& pause) { paused = pause.paused; },
          [&](const Step&) { steps_once = true; },
          [&](const Undo&) { handles.undo(); },
          [&](const Reset&) {
            handles.reset();
            subject.problem->write_x(first_x);
            for (std::size_t k = 0; k < subject.sliders.size(); ++k)
              subject.problem->set(subject.sliders[k].uniform, first_weights[k]);
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
  Frame frame{.number = ++frames, .drag = drag};
  frame.milliseconds.apply = milliseconds_since(begun);
  const auto solve_begun = Clock::now();
  const Summary summary = solver->solve();
  frame.milliseconds.solve = milliseconds_since(solve_begun);
  frame.milliseconds.evaluate = kMilliseconds * summary.times.evaluation_seconds;
  frame.milliseconds.linear = kMilliseconds * summary.times.linear_solver_seconds;
  frame.cost = summary.final_cost;
  frame.gradient = summary.iterations.empty() ? 0 : summary.iterations.back().gradient_max_norm;
  frame.steps = summary.num_iterations();
  frame.backend = summary.backend;
  frame.device = summary.device;
  frame.termination = name(summary.termination);
  frame.compiled = compiled += summary.shaders_compiled;
  // Below this share of the cost a solve changes nothing that can be seen.
  constexpr double kSettled = 1e-9;
  frame.settled = settled =
      !(summary.initial_cost - summary.final_cost > kSettled * summary.initial_cost);
  rate.add(frame.steps);
  std::tie(frame.solves_per_second, frame.steps_per_second) = rate.per_second();
  std::string text = summary.full_report();
  {
    const std::lock_guard lock(mutex);
    report = std::move(text);
  }
  publish(std::move(frame));
  const double end =
      summary.iterations.empty() ? 0 : summary.iterations.back().cumulative_time_in_seconds;
  other_ms = milliseconds_since(begun) - kMilliseconds * std::max(0.0, end - until_tries);
}

void LiveSolver::Impl::publish(Frame frame) {
  frame.positions.resize(start.size());
  subject.show(frame.positions);
  const auto color_begun = Clock::now();
  frame.values = colors.values(coloring, frame.positions);
  if (!frame.values.empty()) {
    const auto [low, high] = std::ranges::minmax(frame.values);
    frame.low = low;
    frame.high = high;
  }
  frame.milliseconds.color = milliseconds_since(color_begun);
  frame.milliseconds.total = milliseconds_since(begun);
  {
    const std::lock_guard lock(mutex);
    newest = std::make_shared<const Frame>(std::move(frame));
  }
  arrived.notify_all();
  if (changed) changed();
}

void LiveSolver::Impl::publish_state() {
  auto made = std::make_shared<State>();
  made->paused = paused;
  made->coloring = coloring;
  made->backend = name(solver_options.backend);
  made->precision = codegen::name(solver_options.precision);
  made->method = name(solver_options.method);
  made->undo_depth = handles.undo_depth();
  for (const Slider& slider : subject.sliders)
    made->weights.emplace_back(slider.name, subject.problem->value(slider.uniform));
  made->handles = handles.all();
  made->message = message;
  published = handles.version();
  state_changed = false;
  {
    const std::lock_guard lock(mutex);
    made->version = state == nullptr ? 1 : state->version + 1;
    state = std::move(made);
  }
  if (changed) changed();
}

void LiveSolver::Impl::fail(const std::string& what) {
  message = what;
  paused = true;
  publish_state();
}

LiveSolver::LiveSolver(Subject subject, const LiveOptions& options, std::function<void()> changed)
    : impl_(std::make_unique<Impl>(std::move(subject), options, std::move(changed))) {}
LiveSolver::~LiveSolver() = default;

bool LiveSolver::post(Command command) {
  bool taken = false;
  {
    const std::lock_guard lock(impl_->mutex);
    taken = impl_->mailbox.post(std::move(command));
  }
  impl_->wakes.notify_all();
  return taken;
}

std::shared_ptr<const Frame> LiveSolver::frame() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->newest;
}

std::shared_ptr<const State> LiveSolver::state() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->state;
}

std::shared_ptr<const Frame> LiveSolver::wait(std::uint64_t number, double seconds) const {
  std::unique_lock lock(impl_->mutex);
  const bool came = impl_->arrived.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return impl_->newest != nullptr && impl_->newest->number > number;
  });
  return came ? impl_->newest : nullptr;
}

std::string LiveSolver::report() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->report;
}

const Subject& LiveSolver::subject() const { return impl_->subject; }
const std::vector<double>& LiveSolver::start() const { return impl_->start; }
const std::string& LiveSolver::topologies() const { return impl_->topologies; }
const std::string& LiveSolver::kernels() const { return impl_->kernels; }

}  // namespace topograd::view
