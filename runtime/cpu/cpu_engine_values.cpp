// Values and derivatives at the current point.
#include "../linear/negative_part.hpp"
#include "cpu_engine.hpp"

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kMatricesPerRange = 64;

}  // namespace

template <class T>
void CpuEngine<T>::residuals(std::span<double> out) {
  check_size("residuals", "rows", terms_.rows(), out.size());
  terms_.rows_of(Part::Residual, terms_.vectors(steps_.x()), out);
}

template <class T>
void CpuEngine<T>::gradient(std::span<double> out) {
  check_size("gradient", "scalars", terms_.scalars(), out.size());
  if (const Column<T>* const known = steps_.known_gradient()) return terms_.write(*known, out);
  terms_.sum(Part::Gradient, terms_.vectors(steps_.x()), sums_);
  terms_.write(sums_, out);
}

template <class T>
void CpuEngine<T>::evaluate(const Values& wanted) {
  if (!wanted.several()) return evaluate_in_turn(*this, wanted);
  check_size("evaluate", "scalars", terms_.scalars(), wanted.gradient.size());
  if (!wanted.residuals.empty())
    check_size("evaluate", "rows", terms_.rows(), wanted.residuals.size());
  const double cost = terms_.evaluate(steps_.x(), wanted.residuals, sums_);
  if (wanted.cost != nullptr) *wanted.cost = cost;
  terms_.write(sums_, wanted.gradient);
}

template <class T>
void CpuEngine<T>::jvp(std::span<const double> p, std::span<double> out) {
  check_size("jvp", "scalars", terms_.scalars(), p.size());
  check_size("jvp", "rows", terms_.rows(), out.size());
  terms_.read(p, direction_);
  terms_.mask(direction_, terms_.constant());
  terms_.rows_of(Part::Jvp, terms_.vectors(steps_.x(), &direction_), out);
}

template <class T>
void CpuEngine<T>::vjp(std::span<const double> seeds, std::span<double> out) {
  check_size("vjp", "rows", terms_.rows(), seeds.size());
  check_size("vjp", "scalars", terms_.scalars(), out.size());
  terms_.set_seeds(seeds);
  terms_.sum(Part::Vjp, terms_.vectors(steps_.x()), sums_);
  terms_.write(sums_, out);
}

template <class T>
void CpuEngine<T>::sum_along(Part part, std::span<const double> p, std::span<double> out) {
  const char* const call = part == Part::Jtjp ? "jtjp" : "hvp";
  check_size(call, "scalars", terms_.scalars(), p.size());
  check_size(call, "scalars", terms_.scalars(), out.size());
  terms_.read(p, direction_);
  terms_.mask(direction_, terms_.constant());
  terms_.sum(part, terms_.vectors(steps_.x(), &direction_), sums_);
  terms_.write(sums_, out);
}

template <class T>
void CpuEngine<T>::jacobian(std::size_t k, std::span<double> values) {
  TermState<T>& term = *terms_.all().at(k);
  const TermIndex& index = term.index();
  const std::size_t m = term.rows(), n = term.slots();
  check_size("jacobian", "numbers", index.instances * m * n, values.size());
  const LinearTerm<T>* const stored = steps_.is_linear() ? steps_.system().linear(term) : nullptr;
  if (stored != nullptr) return stored->copy_jacobian(terms_.pool(), terms_.constant(), values);
  const std::vector<std::uint8_t>& constant = terms_.constant();
  const auto is_constant = [&](std::size_t i, std::size_t slot) {
    const SlotPlace& place = index.slots[slot];
    return constant[index.roles[place.role].base[i] + place.offset] != 0;
  };
  term.for_tiles(terms_.pool(), terms_.workers(), Part::Jacobian, terms_.vectors(steps_.x()),
                 [&](const Worker<T>& worker, std::size_t first, std::size_t count) {
                   for (std::size_t entry = 0; entry < m * n; ++entry) {
                     const T* column = worker.output(entry);
                     for (std::size_t i = 0; i < count; ++i) {
                       const bool zero = !constant.empty() && is_constant(first + i, entry % n);
                       values[(first + i) * m * n + entry] = zero ? 0.0 : double{column[i]};
                     }
                   }
                 });
  ++terms_.stats().kernels_on_cpu;
}

template <class T>
void CpuEngine<T>::hessian(std::size_t k, bool project_blocks, std::span<double> values) {
  TermState<T>& term = *terms_.all().at(k);
  const std::size_t n = term.slots(), size = n * (n + 1) / 2;
  const std::size_t instances = term.index().instances;
  check_size("hessian", "numbers", instances * size, values.size());
  term.for_tiles(terms_.pool(), terms_.workers(), Part::Hessian, terms_.vectors(steps_.x()),
                 [&](const Worker<T>& worker, std::size_t first, std::size_t count) {
                   for (std::size_t entry = 0; entry < size; ++entry) {
                     const T* column = worker.output(entry);
                     for (std::size_t i = 0; i < count; ++i)
                       values[(first + i) * size + entry] = double{column[i]};
                   }
                 });
  ++terms_.stats().kernels_on_cpu;
  if (!project_blocks) return;
  terms_.pool().for_ranges(instances, kMatricesPerRange, [&](std::size_t begin, std::size_t end) {
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(static_cast<Eigen::Index>(n));
    for (std::size_t i = begin; i < end; ++i)
      remove_negative_part(static_cast<Eigen::Index>(n), &values[i * size], solver);
  });
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
