// Times of evaluations with everything resident.
#include "cpu_engine.hpp"
#include "median_time.hpp"

#include "../../ir/error.hpp"

namespace topograd::runtime::cpu {

template <class T>
std::function<void()> CpuEngine<T>::work_of(Pass pass) {
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
  switch (pass) {
    case Pass::residual: return store(Part::Residual);
    case Pass::cost: return [this] { cost_at(x_); };
    case Pass::gradient: return sum(Part::Gradient);
    case Pass::jacobian: return [this] { evaluate_jacobian(); };
    case Pass::jtjp: return sum(Part::Jtjp);
    case Pass::blocks:
      return [this] {
        evaluate_jacobian();
        sum_linear_blocks();
      };
    case Pass::jvp: return store(Part::Jvp);
    case Pass::vjp: return sum(Part::Vjp);
    case Pass::hvp: return sum(Part::Hvp);
    case Pass::hessian: return store(Part::Hessian);
    case Pass::cost_gradient: return [this] { evaluate_at(x_, {}, sums_); };
    case Pass::values:
      return [this, rows = std::vector<double>(rows_)]() mutable { evaluate_at(x_, rows, sums_); };
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(ErrorCode::Unsupported, "cpu engine: " + std::string(name(pass)) + " has no time");
}

template <class T>
Timing CpuEngine<T>::time(Pass pass, int warm_ups, int samples) {
  std::fill(direction_.data(), direction_.data() + scalars_, T(1));
  mask(direction_);
  if (pass == Pass::vjp) {
    const std::vector<double> ones(rows_, 1.0);
    for (const auto& term : terms_) {
      if (!term->energy()) term->set_seeds(pool_, ones);
    }
  }
  return median_time(warm_ups, samples, work_of(pass));
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
