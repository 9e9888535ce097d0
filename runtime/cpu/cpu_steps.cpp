// Linearised points, trial points and their reports.
#include "cpu_steps.hpp"

#include "../engine/column_scaling.hpp"
#include "../profile.hpp"
#include "tiles/column.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topograd::runtime::cpu {

template <class T>
void CpuSteps<T>::follow(const Model& model, bool moved) {
  if (moved) {
    for (Column<T>* v : {&x_, &trial_}) {
      *v = Column<T>(terms_.scalars());
      terms_.zero(*v);
    }
  }
  system_.follow(model, moved);
  if (narrow_) narrow_->follow(model);
  linear_ = trial_ready_ = false;
}

template <class T>
void CpuSteps<T>::set_point(std::span<const double> x) {
  check_size("set_point", "scalars", terms_.scalars(), x.size());
  terms_.read(x, x_);
  linear_ = trial_ready_ = moved_ = false;
  if (narrow_) narrow_->is_linear = false;
}

template <class T>
void CpuSteps<T>::point(std::span<double> x) const {
  check_size("point", "scalars", terms_.scalars(), x.size());
  terms_.write(x_, x);
  terms_.box().clamp(x);
}

template <class T>
const Column<T>* CpuSteps<T>::known_gradient() const {
  const auto is_energy = [](const auto& term) { return term->energy(); };
  // Steps take scalars that a bound holds out of the system's gradient, and ignore energies.
  if (!linear_ || !terms_.box().empty() || !system_.manifolds().empty() ||
      terms_.sums().others_have_energies() || std::ranges::any_of(terms_.all(), is_energy))
    return nullptr;
  return &system_.gradient();
}

template <class T>
std::vector<std::uint8_t> CpuSteps<T>::held_at_bounds(const Column<T>& gradient) const {
  const std::vector<std::uint8_t>& constant = terms_.constant();
  std::vector<std::uint8_t> held(terms_.scalars());
  terms_.pool().for_ranges(held.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const bool at_bound = terms_.box().holds(i, x_[i], gradient[i]);
      held[i] = at_bound || (!constant.empty() && constant[i] != 0) ? 1 : 0;
    }
  });
  return held;
}

template <class T>
void CpuSteps<T>::begin_solve() {
  system_.begin_solve();
  if (narrow_) narrow_->system.begin_solve();
}

template <class T>
void CpuSteps<T>::transfer(ir::StateRecord& record) {
  system_.transfer(record);
  if (narrow_) narrow_->system.transfer(record);
}

template <class T>
const Column<T>& CpuSteps<T>::gradient_moves() {
  const CpuManifolds<T>& manifolds = system_.manifolds();
  const Column<T>& gradient = system_.gradient();
  if (manifolds.empty()) return gradient;
  if (moves_.size() != gradient.size()) moves_ = Column<T>(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) moves_[i] = -gradient[i];
  manifolds.move(terms_.pool(), terms_.workers(), x_.data(), moves_.data(), moves_.data());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    moves_[i] = manifolds.on_manifold(i) ? x_[i] - moves_[i] : gradient[i];
  return moves_;
}

template <class T>
PointReport CpuSteps<T>::linearize() {
  const TimedPass timed(TimedWork::cpu, "linearize");
  if (narrow_) narrow_->is_linear = false;
  system_.store_jacobian(x_);
  CostSum cost(terms_.sums());
  system_.add_residual_square(x_, cost);
  terms_.count_failed_guards(x_);
  system_.sum_gradient();
  linear_ = true;
  trial_ready_ = false;
  const std::vector<std::uint8_t>& constant = terms_.constant();
  const Box& box = terms_.box();
  const Column<T>& gradient = gradient_moves();
  const SumRanges& ranges = terms_.sums();
  const SumRanges::Columns<3> columns = ranges.template collect<3>(
      terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        std::array<double, 2> sums = {0, 0};  // g·g and x·x over free scalars
        double max = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const double g = double{box.projected_gradient(i, x_[i], gradient[i])};
          const double x = double{x_[i]};
          // Written so that a NaN is kept.
          max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
          sums[0] += g * g;
          if (constant.empty() || constant[i] == 0) sums[1] += x * x;
        }
        return std::array{sums[0], sums[1], max};
      });
  if (!box.empty()) system_.hold(held_at_bounds(system_.gradient()));
  PointReport report{.cost = cost.totals().squares / 2,
                     .gradient_max_norm = largest_of(columns[2]),
                     .gradient_norm = std::sqrt(pairwise_sum(columns[0])),
                     .x_norm = std::sqrt(pairwise_sum(columns[1]))};
  add_scaled_norms(report);
  return report;
}

template <class T>
void CpuSteps<T>::add_scaled_norms(PointReport& report) {
  const BlockLayout& layout = terms_.layout();
  const std::vector<std::uint8_t>& out = system_.held();
  const CpuManifolds<T>& manifolds = system_.manifolds();
  const Column<T>&gradient = system_.gradient(), &diagonal = system_.diagonal();
  const SumRanges& ranges = terms_.sums();
  const SumRanges::Columns<4> columns = ranges.template collect<4>(
      terms_.pool(), ranges.of_blocks(), [&](const SumRanges::Range& range) {
        std::array<double, 3> sums = {0, 0, 0};  // of gradient, x and step
        double max = 0;
        layout.for_diagonal(
            range.first_block, range.end_block, [&](std::uint64_t scalar, std::uint64_t) {
              const double h = double{diagonal[scalar]};
              if (h == 0 || (!out.empty() && out[scalar] != 0)) return;
              const double g = scaled_gradient(double{gradient[scalar]}, h), x = double{x_[scalar]};
              const bool on = manifolds.on_manifold(scalar);
              const double moved = on ? double{length_} * double{system_.delta()[scalar]}
                                      : x - double{trial_[scalar]};
              const double step = moved_ ? moved : 0;
              max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
              sums[0] += g * g;
              sums[1] += on ? 0 : h * x * x;
              sums[2] += h * step * step;
            });
        manifolds.for_blocks(range.first, range.end,
                             [&](std::uint64_t first, std::uint32_t width, std::uint32_t tangent,
                                 const auto& entry) {
                               sums[1] += squares_along_tangents(
                                   x_.data() + first, width, tangent,
                                   [&](std::uint32_t t) { return double{diagonal[first + t]}; },
                                   entry);
                             });
        return std::array{sums[0], sums[1], sums[2], max};
      });
  report.scaled_gradient_max = largest_of(columns[3]);
  report.scaled_gradient_norm = std::sqrt(pairwise_sum(columns[0]));
  report.scaled_x_norm = std::sqrt(pairwise_sum(columns[1]));
  report.scaled_step_norm = std::sqrt(pairwise_sum(columns[2]));
}

template <class T>
StepReport CpuSteps<T>::try_step(const StepRequest& request) {
  if (narrow_) return try_narrow_step(request);
  if (!linear_) linearize();
  const auto solved = system_.solve(x_, request);
  StepReport report = finish_step();
  report.model_decrease = solved.model_decrease;
  report.slope = solved.slope;
  report.linear_iterations = solved.iterations;
  report.linear_seconds = solved.seconds;
  return report;
}

void NarrowSystem::follow(const Model& model) {
  const bool moved = terms.follow(model);
  system.follow(model, moved);
  if (moved) x = Column<float>(terms.scalars());
  is_linear = false;
}

void NarrowSystem::linearize(std::span<const double> point) {
  terms.read(point, x);
  system.store_jacobian(x);
}

std::vector<MemoryUse> NarrowSystem::memory() const {
  return together(together(terms.memory(), system.memory()),
                  {{kVectorsOfUnknowns, bytes_of(x), 0}});
}

template <class T>
StepReport CpuSteps<T>::try_narrow_step(const StepRequest& request) {
  const TimedPass timed(TimedWork::cpu, "narrow_step");
  if (!std::exchange(narrow_->is_linear, true)) {
    std::vector<double> numbers(terms_.scalars());
    point(numbers);
    narrow_->linearize(numbers);
    Column<T> gradient(terms_.scalars());
    terms_.sum(Part::Gradient, terms_.vectors(x_), gradient);
    // In f32 a point may seem to be on a bound that it is not on.
    if (!terms_.box().empty()) narrow_->system.hold(held_at_bounds(gradient));
    terms_.write(gradient, numbers);
    narrow_->system.set_gradient(numbers);
  }
  const auto solved = narrow_->system.solve(narrow_->x, request);
  std::vector<double> delta(terms_.scalars());
  narrow_->terms.write(narrow_->system.delta(), delta);
  StepReport report = try_step(std::span<const double>(delta));
  report.model_decrease = solved.model_decrease;
  report.linear_iterations = solved.iterations;
  report.linear_seconds = solved.seconds;
  return report;
}

template <class T>
StepReport CpuSteps<T>::try_step(std::span<const double> delta) {
  check_size("try_step", "scalars", terms_.scalars(), delta.size());
  system_.set_delta(delta);
  StepReport report = finish_step();
  if (!terms_.box().empty()) report.slope = system_.gradient_times_delta();
  return report;
}

template <class T>
StepReport CpuSteps<T>::finish_step(double length) {
  const TimedPass timed(TimedWork::cpu, "trial_point");
  length_ = static_cast<T>(length);
  if (!system_.manifolds().empty()) return finish_step_on_manifolds();
  const Box& box = terms_.box();
  // Moves one scalar of the trial point and returns its step.
  const auto move = [&](std::size_t i) {
    const T step = static_cast<T>(length) * system_.delta()[i];
    trial_[i] = box.nearest(i, x_[i] + step);
    return box.empty() ? step : trial_[i] - x_[i];
  };
  const SumRanges& ranges = terms_.sums();
  if (ranges.is_part()) {  // ghosts are in no range
    for (std::size_t i = 0; i < trial_.size(); ++i) move(i);
  }
  const double square =
      ranges.sum(terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        double sum = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const T step = move(i);
          sum += double{step} * double{step};
        }
        return sum;
      });
  return {.step_norm = std::sqrt(square), .trial_cost = trial_cost()};
}

template <class T>
StepReport CpuSteps<T>::finish_step_on_manifolds() {
  const Box& box = terms_.box();
  Column<T> step(trial_.size());
  for (std::size_t i = 0; i < trial_.size(); ++i) {
    step[i] = length_ * system_.delta()[i];
    trial_[i] = box.nearest(i, x_[i] + step[i]);
  }
  system_.manifolds().move(terms_.pool(), terms_.workers(), x_.data(), step.data(), trial_.data());
  const SumRanges& ranges = terms_.sums();
  const double square =
      ranges.sum(terms_.pool(), ranges.of_scalars(), [&](const SumRanges::Range& range) {
        double sum = 0;
        for (std::size_t i = range.first; i < range.end; ++i) {
          const double moved = double{trial_[i]} - double{x_[i]};
          sum += moved * moved;
        }
        return sum;
      });
  return {.step_norm = std::sqrt(square), .trial_cost = trial_cost()};
}

template <class T>
double CpuSteps<T>::trial_cost() {
  trial_ready_ = true;
  return terms_.cost(trial_);
}

template <class T>
void CpuSteps<T>::trial_point(std::span<double> x) {
  check_size("trial_point", "scalars", terms_.scalars(), x.size());
  terms_.write(trial_, x);
  terms_.box().clamp(x);
}

template <class T>
void CpuSteps<T>::accept() {
  if (!trial_ready_) return;
  std::swap(x_, trial_);
  linear_ = trial_ready_ = false;
  if (narrow_) narrow_->is_linear = false;
  moved_ = true;
}

template <class T>
void CpuSteps<T>::last_step(std::span<double> delta) {
  check_size("last_step", "scalars", terms_.scalars(), delta.size());
  terms_.write(system_.delta(), delta);
}

template <class T>
Timing CpuSteps<T>::time_step(int iterations, double damping, int samples) {
  linear_ = trial_ready_ = false;
  if (narrow_) {
    std::vector<double> numbers(terms_.scalars());
    point(numbers);
    narrow_->terms.read(numbers, narrow_->x);
    narrow_->is_linear = false;
    return narrow_->system.time_step(narrow_->x, iterations, damping, samples);
  }
  return system_.time_step(x_, iterations, damping, samples);
}

template <class T>
std::vector<MemoryUse> CpuSteps<T>::memory() const {
  std::vector<MemoryUse> uses =
      together({{kVectorsOfUnknowns, bytes_of(x_) + bytes_of(trial_), 0}}, system_.memory());
  return narrow_ ? together(std::move(uses), narrow_->memory()) : uses;
}

template class CpuSteps<float>;
template class CpuSteps<double>;

}  // namespace topograd::runtime::cpu
