// Times of evaluations with everything resident.
#include "cpu_engine.hpp"
#include "median_time.hpp"

namespace topograd::runtime::cpu {

template <class T>
std::function<void()> CpuEngine<T>::work_of(KernelKind kind) {
  const auto store = [this](Part part) {
    return [this, part] {
      for (const auto& term : terms_) {
        if (term->energy() && part != Part::Hessian) continue;
        term->store(pool_, workers_, part, vectors(x_, &direction_));
        ++stats_.kernels_on_cpu;
      }
    };
  };
  const auto sum = [this](Part part) {
    return [this, part] { sum_terms(part, vectors(x_, &direction_), sums_); };
  };
  switch (kind) {
    case KernelKind::residual: return store(Part::Residual);
    case KernelKind::cost: return [this] { cost_at(x_); };
    case KernelKind::gradient: return sum(Part::Gradient);
    case KernelKind::jacobian: return [this] { evaluate_jacobian(); };
    case KernelKind::jtjp: return sum(Part::Jtjp);
    case KernelKind::blocks:
      return [this] {
        evaluate_jacobian();
        sum_linear_blocks();
      };
    case KernelKind::jvp: return store(Part::Jvp);
    case KernelKind::vjp: return sum(Part::Vjp);
    case KernelKind::hvp: return sum(Part::Hvp);
    case KernelKind::hessian: return store(Part::Hessian);
    case KernelKind::cost_gradient: return [this] { evaluate_at(x_, {}, sums_); };
    case KernelKind::values:
      return [this, rows = std::vector<double>(rows_)]() mutable { evaluate_at(x_, rows, sums_); };
  }
  return {};
}

template <class T>
Timing CpuEngine<T>::time(KernelKind kind, int warm_ups, int samples) {
  std::fill(direction_.data(), direction_.data() + scalars_, T(1));
  mask(direction_);
  if (kind == KernelKind::vjp) {
    const std::vector<double> ones(rows_, 1.0);
    for (const auto& term : terms_) {
      if (!term->energy()) term->set_seeds(pool_, ones);
    }
  }
  return median_time(warm_ups, samples, work_of(kind));
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
