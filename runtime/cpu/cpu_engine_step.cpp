// Damped least-squares steps from the stored linearisation.
#include "cpu_engine.hpp"

#include "../engine/column_scaling.hpp"
#include "median_time.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace topograd::runtime::cpu {
namespace {

// Calls f(scalar, diagonal) for each number of the diagonal of JᵀJ.
template <class F>
void for_diagonal(const BlockLayout& layout, std::uint32_t begin, std::uint32_t end, const F& f) {
  layout.for_runs(begin, end, [&](BlockLayout::Block block, std::uint32_t count) {
    const std::uint32_t w = block.width;
    for (std::uint32_t k = 0; k < count; ++k) {
      for (std::uint32_t i = 0; i < w; ++i) {
        f(block.first + i, block.packed + (w > kWidestDenseBlock ? i : packed_index(w, i, i)));
      }
      block.first += w;
      block.packed += packed_size(w);
    }
  });
}

}  // namespace

template <class T>
void CpuEngine<T>::evaluate_jacobian() {
  for (const auto& term : terms_) {
    if (term->energy()) continue;
    term->linearize(pool_, workers_, vectors(x_));
    ++stats_.kernels_on_cpu;
  }
}

template <class T>
void CpuEngine<T>::sum_linear_gradient() {
  zero(gradient_);
  for (const auto& term : terms_) {
    if (!term->energy()) term->add_linear_gradient(pool_, layout_, gradient_.data());
  }
  mask(gradient_);
}

template <class T>
void CpuEngine<T>::sum_linear_blocks() {
  zero(blocks_);
  for (const auto& term : terms_) {
    if (!term->energy()) term->add_linear_blocks(pool_, layout_, blocks_.data());
  }
}

template <class T>
void CpuEngine<T>::set_scale(const StepRequest& request) {
  const double unit = request.scale_free ? 0 : 1;
  pool_.for_ranges(layout_.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    for_diagonal(layout_, begin, end, [&](std::uint64_t scalar, std::uint64_t packed) {
      const double s = column_scale(unit, std::sqrt(double{blocks_[packed]}));
      scale_[scalar] = static_cast<T>(s * s);
    });
  });
  scaled_ = true;
}

template <class T>
void CpuEngine<T>::set_damping(const StepRequest& request) {
  if (!scaled_) set_scale(request);
  pool_.for_ranges(layout_.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
    for_diagonal(layout_, begin, end, [&](std::uint64_t scalar, std::uint64_t packed) {
      const double squared = request.jacobi_scaling ? double{scale_[scalar]} : 1.0;
      damping_[scalar] = column_damping(T{blocks_[packed]}, squared, request);
    });
  });
}

template <class T>
void CpuEngine<T>::transfer(ir::StateRecord& record) {
  record.value("columns scaled", scaled_);
  if (scaled_) record.list("column scaling", std::span<T>(scale_));
  preconditioner_->transfer(record);
}

template <class T>
PointReport CpuEngine<T>::linearize() {
  evaluate_jacobian();
  double square = 0;
  for (const auto& term : terms_) {
    if (!term->energy()) square += term->linear_residual_square(pool_, workers_, vectors(x_));
  }
  count_failed_guards(x_);
  sum_linear_gradient();
  sum_linear_blocks();
  linear_ = true;
  trial_ready_ = false;
  const std::size_t ranges = (scalars_ + kScalarsPerRange - 1) / kScalarsPerRange;
  std::vector<double> largest(ranges);
  const auto squares = pool_.template sums_of_ranges<2>(
      scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
        std::array<double, 2> sums = {0, 0};  // g·g and x·x over free scalars
        double max = 0;
        for (std::size_t i = begin; i < end; ++i) {
          const double g = double{projected_gradient(i)}, x = double{x_[i]};
          // Written so that a NaN is kept.
          max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
          sums[0] += g * g;
          if (constant_.empty() || constant_[i] == 0) sums[1] += x * x;
        }
        largest[begin / kScalarsPerRange] = max;
        return sums;
      });
  hold_at_bounds();
  double max = 0;
  for (double m : largest) max = std::isnan(max) || m <= max ? max : m;
  PointReport report{.cost = square / 2,
                     .gradient_max_norm = max,
                     .gradient_norm = std::sqrt(squares[0]),
                     .x_norm = std::sqrt(squares[1])};
  add_scaled_norms(report);
  return report;
}

template <class T>
void CpuEngine<T>::add_scaled_norms(PointReport& report) {
  const std::vector<std::uint8_t>& out = held();
  std::vector<double> largest((layout_.blocks() + kBlocksPerRange - 1) / kBlocksPerRange);
  const auto squares = pool_.template sums_of_ranges<3>(
      layout_.blocks(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
        std::array<double, 3> sums = {0, 0, 0};  // of gradient, x and step
        double max = 0;
        const auto b = static_cast<std::uint32_t>(begin), e = static_cast<std::uint32_t>(end);
        for_diagonal(layout_, b, e, [&](std::uint64_t scalar, std::uint64_t packed) {
          const double h = double{blocks_[packed]};
          if (h == 0 || (!out.empty() && out[scalar] != 0)) return;
          const double g = double{gradient_[scalar]} / std::sqrt(h), x = double{x_[scalar]};
          const double step = moved_ ? x - double{trial_[scalar]} : 0;
          max = std::isnan(max) || std::fabs(g) <= max ? max : std::fabs(g);
          sums[0] += g * g;
          sums[1] += h * x * x;
          sums[2] += h * step * step;
        });
        largest[begin / kBlocksPerRange] = max;
        return sums;
      });
  report.scaled_gradient_max = 0;
  for (const double m : largest) {
    const double max = report.scaled_gradient_max;
    report.scaled_gradient_max = std::isnan(max) || m <= max ? max : m;
  }
  report.scaled_gradient_norm = std::sqrt(squares[0]);
  report.scaled_x_norm = std::sqrt(squares[1]);
  report.scaled_step_norm = std::sqrt(squares[2]);
}

template <class T>
void CpuEngine<T>::ensure_linear() {
  if (!linear_) linearize();
}

// q = (JᵀJ + damping) p; returns p·q. p is zero at fixed scalars, and q is set to zero there.
template <class T>
template <class Damping>
double CpuEngine<T>::multiply(const Damping& damping, const T* p, T* q) {
  const std::vector<std::uint8_t>& out = held();
  pool_.for_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    std::fill(q + begin, q + end, T(0));
  });
  for (const auto& term : terms_) {
    if (term->energy()) continue;
    term->add_linear_jtjp(pool_, workers_, {nullptr, p, uniforms_.data()}, layout_, scalars_, q);
  }
  return pool_.sum_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      q[i] += damping(i) * p[i];
      if (!out.empty() && out[i] != 0) q[i] = 0;
      sum += double{p[i]} * double{q[i]};
    }
    return sum;
  });
}

template <class T>
int CpuEngine<T>::iterate(LinearOperator<T>& matrix, HostPreconditioner<T>& preconditioner,
                          const CgOptions& options) {
  cg_.resize(scalars_);
  pool_.for_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) cg_.residual[i] = -gradient_[i];
  });
  return conjugate_gradients(pool_, matrix, preconditioner, cg_, delta_.data(), options).iterations;
}

template <class T>
int CpuEngine<T>::solve_step(const StepRequest& request) {
  auto matrix = product_by<T>(
      [&](const T* p, T* q) { return multiply([&](std::size_t i) { return damping_[i]; }, p, q); });
  preconditioner_->build(pool_,
                         {layout_, x_.data(), blocks_.data(), damping_.data(), held(), matrix});
  const CgOptions options{.tolerance = request.linear_tolerance,
                          .in_energy = request.energy_norm || preconditioner_->is_norm(),
                          .max_iterations = request.max_linear_iterations,
                          .eta = request.eta};
  const int iterations = iterate(matrix, *preconditioner_, options);
  preconditioner_->solved(iterations);
  return iterations;
}

template <class T>
StepReport CpuEngine<T>::try_step(const StepRequest& request) {
  ensure_linear();
  const auto start = std::chrono::steady_clock::now();
  set_damping(request);
  const int iterations = solve_step(request);
  const double g_delta = gradient_times_step();
  double square = 0;
  for (const auto& term : terms_) {
    if (term->energy()) continue;
    term->apply(pool_, workers_, vectors(x_, &delta_));
    square += term->applied_square(pool_);
  }
  const std::chrono::duration<double> linear = std::chrono::steady_clock::now() - start;
  StepReport report = finish_step();
  report.model_decrease = -g_delta - square / 2;
  report.slope = g_delta;
  report.linear_iterations = iterations;
  report.linear_seconds = linear.count();
  return report;
}

template <class T>
StepReport CpuEngine<T>::try_step(std::span<const double> delta) {
  check_size("try_step", "scalars", scalars_, delta.size());
  read(delta, delta_);
  mask(delta_, held());
  StepReport report = finish_step();
  if (bounded()) report.slope = gradient_times_step();
  return report;
}

template <class T>
double CpuEngine<T>::gradient_times_step() {
  return pool_.sum_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += double{gradient_[i]} * double{delta_[i]};
    return sum;
  });
}

template <class T>
void CpuEngine<T>::set_gradient(std::span<const double> g) {
  check_size("set_gradient", "scalars", scalars_, g.size());
  ensure_linear();
  read(g, gradient_);
  mask(gradient_, held());
}

template <class T>
void CpuEngine<T>::last_step(std::span<double> delta) {
  check_size("last_step", "scalars", scalars_, delta.size());
  write(delta_, delta);
}

template <class T>
StepReport CpuEngine<T>::rescale_step(double length) {
  return finish_step(length);
}

// Moves to x + length δ and evaluates the cost there.
template <class T>
StepReport CpuEngine<T>::finish_step(double length) {
  const double square =
      pool_.sum_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
        double sum = 0;
        for (std::size_t i = begin; i < end; ++i) {
          T step = static_cast<T>(length) * delta_[i];
          trial_[i] = x_[i] + step;
          if (bounded()) {
            if (trial_[i] < static_cast<T>(lower_[i])) trial_[i] = static_cast<T>(lower_[i]);
            if (trial_[i] > static_cast<T>(upper_[i])) trial_[i] = static_cast<T>(upper_[i]);
            step = trial_[i] - x_[i];
          }
          sum += double{step} * double{step};
        }
        return sum;
      });
  trial_ready_ = true;
  return {.step_norm = std::sqrt(square), .trial_cost = cost_at(trial_)};
}

template <class T>
void CpuEngine<T>::trial_point(std::span<double> x) {
  check_size("trial_point", "scalars", scalars_, x.size());
  write(trial_, x);
  keep_in_box(x);
}

template <class T>
double CpuEngine<T>::trial_cost() {
  trial_ready_ = true;
  return cost_at(trial_);
}

template <class T>
void CpuEngine<T>::accept() {
  if (!trial_ready_) return;
  std::swap(x_, trial_);
  linear_ = trial_ready_ = false;
  moved_ = true;
}

template <class T>
Timing CpuEngine<T>::time_step(int iterations, double damping, int samples) {
  auto matrix = product_by<T>([&](const T* p, T* q) {
    return multiply([&](std::size_t) { return static_cast<T>(damping); }, p, q);
  });
  NoPreconditioner<T> none(scalars_, kScalarsPerRange);
  const CgOptions options{.tolerance = 0, .max_iterations = iterations};
  linear_ = trial_ready_ = false;
  return median_time(0, samples, [&] {
    evaluate_jacobian();
    sum_linear_gradient();
    iterate(matrix, none, options);
  });
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
