// Values and derivatives at the current point.
#include "cpu_engine.hpp"

namespace topograd::runtime::cpu {

template <class T>
double CpuEngine<T>::cost_at(const Column<T>& x) {
  double square = 0, energy = 0;
  for (const auto& term : terms_) {
    (term->energy() ? energy : square) += term->cost(pool_, workers_, vectors(x));
    ++stats_.kernels_on_cpu;
  }
  count_failed_guards(x);
  return square / 2 + energy;
}

template <class T>
void CpuEngine<T>::count_failed_guards(const Column<T>& x) {
  failed_guards_ = 0;
  for (const auto& term : terms_) {
    if (term->has_guards()) failed_guards_ += term->failed(pool_, workers_, vectors(x)).size();
  }
}

template <class T>
std::vector<std::uint32_t> CpuEngine<T>::failed_instances(std::size_t k, At at) {
  TermState<T>& term = *terms_.at(k);
  if (!term.has_guards()) return {};
  return term.failed(pool_, workers_, vectors(at == At::point ? x_ : trial_));
}

template <class T>
void CpuEngine<T>::rows_of(Part part, const Vectors<T>& v, std::span<double> out) {
  for (const auto& term : terms_) {
    if (term->energy()) continue;
    term->for_tiles(pool_, workers_, part, v,
                    [&](const Worker<T>& worker, std::size_t first, std::size_t n) {
                      term->copy_rows(worker, 0, first, n, out);
                    });
    ++stats_.kernels_on_cpu;
  }
}

template <class T>
void CpuEngine<T>::sum_terms(Part part, const Vectors<T>& v, Column<T>& out) {
  zero(out);
  const bool with_energies = part == Part::Gradient || part == Part::Hvp;
  for (const auto& term : terms_) {
    if (term->energy() && !with_energies) continue;
    term->add_terms(pool_, workers_, part, v, layout_, out.data());
    ++stats_.kernels_on_cpu;
  }
  mask(out);
}

template <class T>
void CpuEngine<T>::residuals(std::span<double> out) {
  check_size("residuals", "rows", rows_, out.size());
  rows_of(Part::Residual, vectors(x_), out);
}

template <class T>
void CpuEngine<T>::gradient(std::span<double> out) {
  check_size("gradient", "scalars", scalars_, out.size());
  sum_terms(Part::Gradient, vectors(x_), sums_);
  write(sums_, out);
}

template <class T>
double CpuEngine<T>::evaluate_at(const Column<T>& x, std::span<double> rows, Column<T>& gradient) {
  double square = 0, energy = 0;
  zero(gradient);
  for (const auto& term : terms_) {
    (term->energy() ? energy : square) +=
        term->add_gradient(pool_, workers_, vectors(x), layout_, gradient.data(), rows);
    ++stats_.kernels_on_cpu;
  }
  mask(gradient);
  count_failed_guards(x);
  return square / 2 + energy;
}

template <class T>
void CpuEngine<T>::evaluate(const Values& wanted) {
  if (!wanted.several()) return evaluate_in_turn(*this, wanted);
  check_size("evaluate", "scalars", scalars_, wanted.gradient.size());
  if (!wanted.residuals.empty()) check_size("evaluate", "rows", rows_, wanted.residuals.size());
  const double cost = evaluate_at(x_, wanted.residuals, sums_);
  if (wanted.cost != nullptr) *wanted.cost = cost;
  write(sums_, wanted.gradient);
}

template <class T>
void CpuEngine<T>::jvp(std::span<const double> p, std::span<double> out) {
  check_size("jvp", "scalars", scalars_, p.size());
  check_size("jvp", "rows", rows_, out.size());
  read(p, direction_);
  mask(direction_);
  rows_of(Part::Jvp, vectors(x_, &direction_), out);
}

template <class T>
void CpuEngine<T>::vjp(std::span<const double> seeds, std::span<double> out) {
  check_size("vjp", "rows", rows_, seeds.size());
  check_size("vjp", "scalars", scalars_, out.size());
  for (const auto& term : terms_) {
    if (!term->energy()) term->set_seeds(pool_, seeds);
  }
  sum_terms(Part::Vjp, vectors(x_), sums_);
  write(sums_, out);
}

template <class T>
void CpuEngine<T>::jtjp(std::span<const double> p, std::span<double> out) {
  check_size("jtjp", "scalars", scalars_, p.size());
  check_size("jtjp", "scalars", scalars_, out.size());
  read(p, direction_);
  mask(direction_);
  sum_terms(Part::Jtjp, vectors(x_, &direction_), sums_);
  write(sums_, out);
}

template <class T>
void CpuEngine<T>::jacobian(std::size_t k, std::span<double> values) {
  TermState<T>& term = *terms_.at(k);
  const TermIndex& index = term.index();
  const std::size_t m = term.rows(), n = term.slots();
  check_size("jacobian", "numbers", index.instances * m * n, values.size());
  const auto is_constant = [&](std::size_t i, std::size_t slot) {
    const SlotPlace& place = index.slots[slot];
    return constant_[index.roles[place.role].base[i] + place.offset] != 0;
  };
  term.for_tiles(pool_, workers_, Part::Jacobian, vectors(x_),
                 [&](const Worker<T>& worker, std::size_t first, std::size_t count) {
                   for (std::size_t entry = 0; entry < m * n; ++entry) {
                     const T* column = worker.output(entry);
                     for (std::size_t i = 0; i < count; ++i) {
                       const bool zero = !constant_.empty() && is_constant(first + i, entry % n);
                       values[(first + i) * m * n + entry] = zero ? 0.0 : double{column[i]};
                     }
                   }
                 });
  ++stats_.kernels_on_cpu;
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
