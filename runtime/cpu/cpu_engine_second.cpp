// Second derivatives at the current point, and the projection of Hessians of instances.
#include "../linear/negative_part.hpp"
#include "cpu_engine.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {
namespace {

constexpr std::size_t kMatricesPerRange = 64;

}  // namespace

template <class T>
void CpuEngine<T>::hvp(std::span<const double> p, std::span<double> out) {
  check_size("hvp", "scalars", scalars_, p.size());
  check_size("hvp", "scalars", scalars_, out.size());
  read(p, direction_);
  mask(direction_);
  sum_terms(Part::Hvp, vectors(x_, &direction_), sums_);
  write(sums_, out);
}

template <class T>
void CpuEngine<T>::hessian(std::size_t k, bool project_blocks, std::span<double> values) {
  TermState<T>& term = *terms_.at(k);
  const std::size_t n = term.slots(), size = n * (n + 1) / 2;
  const std::size_t instances = term.index().instances;
  check_size("hessian", "numbers", instances * size, values.size());
  term.for_tiles(pool_, workers_, Part::Hessian, vectors(x_),
                 [&](const Worker<T>& worker, std::size_t first, std::size_t count) {
                   for (std::size_t entry = 0; entry < size; ++entry) {
                     const T* column = worker.output(entry);
                     for (std::size_t i = 0; i < count; ++i)
                       values[(first + i) * size + entry] = double{column[i]};
                   }
                 });
  ++stats_.kernels_on_cpu;
  if (!project_blocks) return;
  pool_.for_ranges(instances, kMatricesPerRange, [&](std::size_t begin, std::size_t end) {
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(static_cast<Eigen::Index>(n));
    for (std::size_t i = begin; i < end; ++i)
      remove_negative_part(static_cast<Eigen::Index>(n), &values[i * size], solver);
  });
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
