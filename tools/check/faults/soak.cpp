// Repeats the same work and observes the process.
#include "soak.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/solve.hpp"
#include "known_answers.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

namespace topograd::check {
namespace {

namespace hybrid = runtime::hybrid;

constexpr std::size_t kSizes[] = {4, 64, 1000};
constexpr std::size_t kTaskItems[] = {100, 10'000, 200'000};

/// The device's name and precision; an empty name if there is none.
std::string find_device(const SoakOptions& options, Precision& precision) {
  if (options.backend == Backend::cpu) return {};
  const DeviceFacts facts = probe_device({.device = options.device});
  if (facts.available) {
    precision = facts.float64 ? Precision::f64 : Precision::f32;
    return facts.name;
  }
  if (options.backend == Backend::vulkan)
    throw Error(facts.code, "check soak: backend vulkan: " + facts.problem);
  return {};
}

class SoakCheck {
 public:
  explicit SoakCheck(const SoakOptions& options) : options_(options) {
    if (!(options.seconds > 0))
      throw Error(ErrorCode::InvalidArgument,
                  "check soak: expected seconds > 0, got " + std::to_string(options.seconds));
    watch_driver_objects();
    report_.device = find_device(options, report_.precision);
    if (options.backend != Backend::vulkan) backends_.push_back(Backend::cpu);
    if (!report_.device.empty()) backends_.push_back(Backend::vulkan);
  }

  SoakReport run() {
    const auto start = std::chrono::steady_clock::now();
    open();
    while (!Interrupts::came() &&
           (report_.rounds < kLeastRounds || seconds_since(start) < options_.seconds)) {
      round();
      const double progress =
          std::min(seconds_since(start) / options_.seconds,
                   static_cast<double>(report_.rounds) / static_cast<double>(kLeastRounds));
      if (progress >= 1.0 / 3) look(progress >= 2.0 / 3);
      if (options_.open_every > 0 && report_.rounds % options_.open_every == 0) open();
    }
    report_.seconds = seconds_since(start);
    return std::move(report_);
  }

 private:
  static constexpr std::uint64_t kLeastRounds = 30;

  /// Destroys all objects that hold a device and makes new ones.
  void open() {
    going_on_.clear();
    executor_ = nullptr;
    let_go_of_devices();
    executor_ = std::make_unique<hybrid::Executor>(hybrid::HybridOptions{.admit_software = true});
    if (report_.device.empty()) return;
    add_devices(*executor_, {.device = options_.device});
    ++report_.openings;
  }

  SolverOptions solver_options(Backend backend) const {
    SolverOptions options{.backend = backend, .device = options_.device};
    if (backend != Backend::cpu) options.precision = report_.precision;
    options.linear_solver = LinearSolver::pcg;
    solve_valleys_to_the_end(options);
    return options;
  }

  void round() {
    ++report_.rounds;
    for (const Backend backend : backends_) {
      for (const std::size_t size : kSizes) solve_fresh(size, backend);
      go_on(backend);
    }
    for (const std::size_t items : kTaskItems) {
      for (const bool device : {false, true}) {
        if (device && report_.device.empty()) continue;
        Lines task(items, device ? hybrid::Override::device : hybrid::Override::cpu);
        executor_->execute(task);
        ++report_.tasks;
        report_.wrong += task.right() ? 0 : 1;
      }
    }
  }

  void solve_fresh(std::size_t size, Backend backend) {
    Valleys valleys(size, 0.9, 0.7);
    Evaluator evaluator(valleys.problem(), solver_options(backend));
    const double cost = evaluator.cost();
    const double gradient = evaluator.gradient().norm();
    report_.evaluations += 2;
    const Summary summary = solve(valleys.problem(), solver_options(backend));
    count(summary, valleys.off());
    const double most = right_within(summary.precision) * std::abs(summary.initial_cost);
    if (!(std::abs(cost - summary.initial_cost) <= most) || !(gradient > 0)) ++report_.wrong;
  }

  /// Solves with a Solver that is reused; its problem is moved away from its minimum first.
  void go_on(Backend backend) {
    auto& [valleys, solver] = going_on_[backend];
    if (!solver) {
      valleys = std::make_unique<Valleys>(kSizes[1], 0.9, 0.7);
      solver = std::make_unique<Solver>(valleys->problem(), solver_options(backend));
    }
    valleys->move_to(0.9, 0.7);
    const Summary summary = solver->solve();
    count(summary, valleys->off());
  }

  void count(const Summary& summary, double off) {
    ++report_.solves;
    report_.steps += static_cast<std::uint64_t>(summary.num_iterations());
    report_.wrong += off < right_within(summary.precision) ? 0 : 1;
  }

  /// Updates the minimum of each figure.
  void look(bool last) {
    const std::pair<const char*, std::uint64_t> seen[] = {
        {"resident_bytes", platform::resident_bytes()},
        {"heap_bytes", platform::heap_bytes()},
        {"device_bytes", driver_bytes()},
        {"device_objects", driver_objects()},
        {"open_files", platform::open_files()},
        {"threads", static_cast<std::uint64_t>(platform::thread_count())}};
    report_.figures.resize(std::size(seen));
    for (std::size_t k = 0; k < std::size(seen); ++k) {
      SoakFigure& figure = report_.figures[k];
      figure.name = seen[k].first;
      figure.allowed = k < std::size(kAllowed) ? kAllowed[k] : 0;
      std::uint64_t& kept = last ? figure.last : figure.first;
      bool& met = last ? met_last_ : met_first_;
      kept = met ? std::min(kept, seen[k].second) : seen[k].second;
      if (k + 1 == std::size(seen)) met = true;
    }
  }

  // The first figures: resident, heap, device.
  static constexpr double kAllowed[] = {kMostResidentGrowth, kMostGrowth, kMostGrowth};

  SoakOptions options_;
  std::vector<Backend> backends_;
  std::unique_ptr<hybrid::Executor> executor_;
  struct GoingOn {
    std::unique_ptr<Valleys> valleys;
    std::unique_ptr<Solver> solver;
  };
  std::map<Backend, GoingOn> going_on_;
  bool met_first_ = false, met_last_ = false;
  SoakReport report_;
};

}  // namespace

double SoakFigure::growth() const {
  const auto from = static_cast<double>(first);
  return first == 0 ? (last == 0 ? 0 : 1) : (static_cast<double>(last) - from) / from;
}

bool SoakFigure::broken() const {
  return growth() > allowed && (allowed == 0 || last - first > kLeastBytes);
}

bool SoakReport::broken() const {
  return wrong > 0 || std::ranges::any_of(figures, [](const SoakFigure& f) { return f.broken(); });
}

SoakReport check_soak(const SoakOptions& options) { return SoakCheck(options).run(); }

}  // namespace topograd::check
