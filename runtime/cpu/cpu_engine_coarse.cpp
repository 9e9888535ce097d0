// The coarse space of the interpreter's conjugate gradients.
#include "cpu_engine.hpp"

#include <algorithm>
#include <vector>

namespace topograd::runtime::cpu {

// The coarse space is planned again where instances or constant flags have changed.
template <class T>
void CpuEngine<T>::follow_pattern(const Model& model) {
  std::vector<std::uint64_t> versions;
  for (const Term& term : model.terms) versions.push_back(term.batch->structure_version());
  const auto batch = [](const Term& term) { return term.batch; };
  const bool same = model.scalars == model_.scalars && versions == pattern_versions_ &&
                    std::ranges::equal(model.terms, model_.terms, {}, batch, batch) &&
                    model.constant == model_.constant &&
                    model.lower.empty() == model_.lower.empty() && model.charts == model_.charts;
  model_ = model;
  pattern_versions_ = std::move(versions);
  if (!same) coarse_.model_changed();
}

// Makes the coarse space where it is due.
template <class T>
void CpuEngine<T>::precondition_coarse() {
  const auto here = [&] {
    std::vector<double> x(scalars_);
    write(x_, x);
    return x;
  };
  if (!coarse_.due(model_, here)) return;
  const typename TwoLevel<T>::System system = {
      .x = x_.data(),
      .scalars = scalars_,
      .apply = [&](const T* p, T* q) { multiply_damped(p, q); },
      .precondition =
          [&](const T* r, T* z) {
            pool_.for_ranges(layout_.blocks(), kBlocksPerRange,
                             [&](std::size_t begin, std::size_t end) {
                               preconditioner_.apply(layout_, static_cast<std::uint32_t>(begin),
                                                     static_cast<std::uint32_t>(end), r, z);
                             });
          }};
  if (two_level_.build(pool_, coarse_.plan(), system)) {
    coarse_.built();
  } else {
    coarse_.failed("block_jacobi: the coarse matrix is not positive definite");
  }
}

template void CpuEngine<float>::follow_pattern(const Model& model);
template void CpuEngine<double>::follow_pattern(const Model& model);
template void CpuEngine<float>::precondition_coarse();
template void CpuEngine<double>::precondition_coarse();

}  // namespace topograd::runtime::cpu
