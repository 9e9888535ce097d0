// The thread of a live solver: commands, solves, and frames of them.
#include "live_solver.hpp"

#include "../../api/source.hpp"
#include "../../ir/error.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/solve.hpp"
#include "../../solver/summary.hpp"
#include "exchange.hpp"
#include "frame.hpp"
#include "subject.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace topograd::view {

/// Computes what colours show, by an Evaluator on the CPU that is made when it is first needed.
class Colors {
 public:
  ///   start  of the shown points; must outlive this
  Colors(Subject& subject, std::span<const double> start) : subject_(&subject), start_(start) {}

  /// One number >= 0 for each shown point; 0 for those that no handle can have, except their
  /// displacements. Empty for Coloring::none.
  std::vector<double> values(Coloring coloring, std::span<const double> present);

 private:
  Evaluator& evaluator();
  std::vector<double> residuals();
  std::vector<double> gradients();
  /// For each point the rows of residuals that read it.
  void find_rows();

  Subject* subject_;
  std::span<const double> start_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::uint32_t> first_row_, rows_;  ///< of point p: first_row_[p] .. first_row_[p + 1]
};

/// For one frame after the other: start_clock(), begin(), add() after the solve, show().
class FrameMaker {
 public:
  ///   start  of the shown points; it and the subject outlive this
  FrameMaker(Subject& subject, std::span<const double> start)
      : subject_(subject), colors_(subject, start), numbers_(start.size()) {}

  /// The work for a frame begins.
  void start_clock() { begun_ = Clock::now(); }
  /// Since then.
  double milliseconds() const;
  /// The next frame, whose commands are applied.
  Frame begin(std::uint64_t drag);
  /// Adds the results of its solve, which took this long.
  void add(Frame& frame, const Summary& summary, double solve_ms);
  /// Adds positions and colours.
  void show(Frame& frame, Coloring coloring);
  /// Nothing is solved for a while: rates are those of work.
  void rest() { rate_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  Subject& subject_;
  Colors colors_;
  std::size_t numbers_;  // three for each shown point
  std::uint64_t frames_ = 0, compiled_ = 0;
  Rate rate_;
  Clock::time_point begun_;
};

Evaluator& Colors::evaluator() {
  if (evaluator_ == nullptr) {
    evaluator_ =
        std::make_unique<Evaluator>(*subject_->problem, SolverOptions{.backend = Backend::cpu});
  }
  return *evaluator_;
}

void Colors::find_rows() {
  if (!first_row_.empty()) return;
  const std::size_t points = subject_->points.size(),
                    width = static_cast<std::size_t>(subject_->points.width());
  const std::uint32_t first = subject_->problem->offset_of("view", {subject_->points, 0});
  std::vector<std::vector<std::uint32_t>> rows(points);
  const Evaluator::SparseMatrix jacobian = evaluator().jacobian();
  for (int row = 0; row < jacobian.outerSize(); ++row) {
    for (Evaluator::SparseMatrix::InnerIterator entry(jacobian, row); entry; ++entry) {
      const auto scalar = static_cast<std::size_t>(entry.col());
      if (scalar < first || scalar >= first + width * points) continue;
      std::vector<std::uint32_t>& of_point = rows[(scalar - first) / width];
      const auto number = static_cast<std::uint32_t>(row);
      if (of_point.empty() || of_point.back() != number) of_point.push_back(number);
    }
  }
  for (const std::vector<std::uint32_t>& of_point : rows) {
    first_row_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.insert(rows_.end(), of_point.begin(), of_point.end());
  }
  first_row_.push_back(static_cast<std::uint32_t>(rows_.size()));
}

std::vector<double> Colors::residuals() {
  find_rows();
  const Eigen::VectorXd r = evaluator().residuals();
  std::vector<double> out(subject_->shown);
  for (std::size_t p = 0; p + 1 < first_row_.size(); ++p) {
    double sum = 0;
    for (std::uint32_t k = first_row_[p]; k < first_row_[p + 1]; ++k)
      sum += r[rows_[k]] * r[rows_[k]];
    out[p] = std::sqrt(sum);
  }
  return out;
}

std::vector<double> Colors::gradients() {
  const Eigen::VectorXd g = evaluator().gradient();
  const std::uint32_t first = subject_->problem->offset_of("view", {subject_->points, 0});
  const auto width = static_cast<std::size_t>(subject_->points.width());
  std::vector<double> out(subject_->shown);
  for (std::size_t p = 0; p < subject_->points.size(); ++p)
    out[p] =
        g.segment(static_cast<Eigen::Index>(first + width * p), static_cast<Eigen::Index>(width))
            .norm();
  return out;
}

std::vector<double> Colors::values(Coloring coloring, std::span<const double> present) {
  switch (coloring) {
    case Coloring::none: return {};
    case Coloring::residual: return residuals();
    case Coloring::gradient: return gradients();
    case Coloring::displacement: break;
  }
  std::vector<double> out(present.size() / 3);
  for (std::size_t p = 0; p < out.size(); ++p)
    out[p] = std::hypot(present[3 * p] - start_[3 * p], present[3 * p + 1] - start_[3 * p + 1],
                        present[3 * p + 2] - start_[3 * p + 2]);
  return out;
}

namespace {

constexpr double kMilliseconds = 1000;

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

double FrameMaker::milliseconds() const { return milliseconds_since(begun_); }

Frame FrameMaker::begin(std::uint64_t drag) {
  Frame frame{.number = ++frames_, .drag = drag};
  frame.milliseconds.apply = milliseconds();
  return frame;
}

void FrameMaker::add(Frame& frame, const Summary& summary, double solve_ms) {
  frame.milliseconds.solve = solve_ms;
  frame.milliseconds.evaluate = kMilliseconds * summary.times.evaluation_seconds;
  frame.milliseconds.linear = kMilliseconds * summary.times.linear_solver_seconds;
  frame.cost = summary.final_cost;
  frame.gradient = summary.iterations.empty() ? 0 : summary.iterations.back().gradient_max_norm;
  frame.steps = summary.num_iterations();
  frame.backend = summary.backend;
  frame.device = summary.device;
  frame.termination = name(summary.termination);
  frame.compiled = compiled_ += summary.shaders_compiled;
  // Below this share of the cost a solve changes nothing that can be seen.
  constexpr double kSettled = 1e-9;
  frame.settled = !(summary.initial_cost - summary.final_cost > kSettled * summary.initial_cost);
  rate_.add(frame.steps);
  std::tie(frame.solves_per_second, frame.steps_per_second) = rate_.per_second();
}

void FrameMaker::show(Frame& frame, Coloring coloring) {
  frame.positions.resize(numbers_);
  subject_.show(frame.positions);
  const auto color_begun = Clock::now();
  frame.values = colors_.values(coloring, frame.positions);
  if (!frame.values.empty()) {
    const auto [low, high] = std::ranges::minmax(frame.values);
    frame.low = low;
    frame.high = high;
  }
  frame.milliseconds.color = milliseconds_since(color_begun);
  frame.milliseconds.total = milliseconds();
}

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // Clang 16 does not deduce it

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
