// Following a model, and sums and rows over its terms.
#include "cpu_terms.hpp"

#include "../../ir/error.hpp"
#include "../profile.hpp"
#include "linear/conjugate_gradients.hpp"
#include "tiles/column.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace topograd::runtime::cpu {

void check_size(const char* call, const char* what, std::size_t expected, std::size_t got) {
  if (expected == got) return;
  throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) + " " +
                                    what + ", got " + std::to_string(got));
}

template <class T>
bool CpuTerms<T>::follow(const Model& model) {
  const auto same = [](const ParameterArray& a, const ParameterArray& b) {
    return a.offset == b.offset && a.width == b.width && a.blocks == b.blocks;
  };
  const bool moved = scalars_ != model.scalars || !std::ranges::equal(arrays_, model.arrays, same);
  if (moved) {
    arrays_ = model.arrays;
    layout_ = BlockLayout(arrays_);
    sums_.follow(layout_, arrays_);
    scalars_ = model.scalars;
  }
  rows_ = model.rows;
  constant_ = model.constant;
  if (std::ranges::all_of(constant_, [](std::uint8_t c) { return c == 0; })) constant_.clear();
  box_ = {model.lower, model.upper};
  uniforms_ = Column<T>(model.uniforms.size());
  std::ranges::transform(model.uniforms, uniforms_.data(),
                         [](double u) { return static_cast<T>(u); });
  rebuild(model, moved);
  return moved;
}

// Terms whose batch has the same structure keep their columns; topologies keep their kernels.
template <class T>
void CpuTerms<T>::rebuild(const Model& model, bool all) {
  std::map<const ir::Batch*, std::shared_ptr<TermState<T>>> old;
  for (auto& term : terms_) old.emplace(term->term().batch, std::move(term));
  terms_.clear();
  for (const Term& term : model.terms) {
    const auto known = old.find(term.batch);
    if (!all && known != old.end() && known->second != nullptr && known->second->is_current(term)) {
      terms_.push_back(std::move(known->second));
      terms_.back()->refresh_data();
      continue;
    }
    auto& kernels = kernels_[{term.topology, term.loss}];
    if (kernels == nullptr)
      kernels = std::make_shared<TermKernels<T>>(term, bits_, device_ != nullptr);
    terms_.push_back(std::make_shared<TermState<T>>(term, layout_, model.scalars,
                                                    model.uniforms.size(), kernels, device_.get()));
  }
  for (const auto& [batch, term] : old)
    if (term != nullptr) earlier_on_device_ += term->runs_on_device();
}

template <class T>
std::uint64_t CpuTerms<T>::runs_on_device() const {
  std::uint64_t all = earlier_on_device_;
  for (const auto& term : terms_) all += term->runs_on_device();
  return all;
}

template <class T>
void CpuTerms<T>::zero(Column<T>& v) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    std::fill(v.data() + begin, v.data() + end, T(0));
  });
}

template <class T>
void CpuTerms<T>::mask(Column<T>& v, const std::vector<std::uint8_t>& fixed) {
  if (fixed.empty()) return;
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) v[i] = fixed[i] != 0 ? T(0) : v[i];
  });
}

template <class T>
void CpuTerms<T>::read(std::span<const double> in, Column<T>& v) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) v[i] = static_cast<T>(in[i]);
  });
}

template <class T>
void CpuTerms<T>::write(const Column<T>& v, std::span<double> out) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = double{v[i]};
  });
}

template <class T>
double CpuTerms<T>::cost(const Column<T>& x) {
  const TimedPass timed(TimedWork::cpu, "vectors");
  CostSum cost(sums_);
  for (const auto& term : terms_) {
    term->add_cost(pool_, workers_, vectors(x), layout_, cost);
    ++stats_.kernels_on_cpu;
  }
  count_failed_guards(x);
  const CostSum::Totals totals = cost.totals();
  return totals.squares / 2 + totals.energies;
}

template <class T>
double CpuTerms<T>::evaluate(const Column<T>& x, std::span<double> rows, Column<T>& gradient) {
  const TimedPass timed(TimedWork::cpu, "vectors");
  CostSum cost(sums_);
  zero(gradient);
  for (const auto& term : terms_) {
    term->add_gradient(pool_, workers_, vectors(x), layout_, gradient.data(), rows, cost);
    ++stats_.kernels_on_cpu;
  }
  mask(gradient, constant_);
  count_failed_guards(x);
  const CostSum::Totals totals = cost.totals();
  return totals.squares / 2 + totals.energies;
}

template <class T>
void CpuTerms<T>::rows_of(Part part, const Vectors<T>& v, std::span<double> out) {
  const TimedPass timed(TimedWork::cpu, "vectors");
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
void CpuTerms<T>::sum(Part part, const Vectors<T>& v, Column<T>& out) {
  const TimedPass timed(TimedWork::cpu, "vectors");
  zero(out);
  const bool with_energies = part == Part::Gradient || part == Part::Hvp;
  for (const auto& term : terms_) {
    if (term->energy() && !with_energies) continue;
    term->add_terms(pool_, workers_, part, v, layout_, out.data());
    ++stats_.kernels_on_cpu;
  }
  mask(out, constant_);
}

template <class T>
void CpuTerms<T>::set_seeds(std::span<const double> seeds) {
  for (const auto& term : terms_) {
    if (!term->energy()) term->set_seeds(pool_, seeds);
  }
}

template <class T>
void CpuTerms<T>::count_failed_guards(const Column<T>& x) {
  failed_guards_ = 0;
  for (const auto& term : terms_) {
    if (term->has_guards()) failed_guards_ += term->failed(pool_, workers_, vectors(x)).size();
  }
}

template <class T>
std::vector<std::uint32_t> CpuTerms<T>::failed_instances(std::size_t k, const Column<T>& x) {
  TermState<T>& term = *terms_.at(k);
  if (!term.has_guards()) return {};
  return term.failed(pool_, workers_, vectors(x));
}

template <class T>
std::vector<MemoryUse> CpuTerms<T>::memory() const {
  typename TermState<T>::Bytes terms;
  for (const auto& term : terms_) {
    const auto of_term = term->bytes();
    terms.index += of_term.index;
    terms.lists += of_term.lists;
    terms.data += of_term.data;
    terms.stored += of_term.stored;
  }
  return {{"index columns", terms.index, 0},
          {"instances by block", terms.lists, 0},
          {"data columns", terms.data, 0},
          {kStoredResults, terms.stored, 0},
          {kVectorsOfUnknowns, bytes_of(uniforms_) + bytes_of(constant_), 0}};
}

template class CpuTerms<float>;
template class CpuTerms<double>;

}  // namespace topograd::runtime::cpu
