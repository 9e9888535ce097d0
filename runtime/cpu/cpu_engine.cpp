// Construction and refresh of an engine, and access to its point.
#include "cpu_engine.hpp"

#include "../../ir/error.hpp"
#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace topograd::runtime::cpu {

template <class T>
CpuEngine<T>::CpuEngine(const Model& model, const EngineOptions& options)
    : other_strategy_asked_(options.accumulation.value_or(Accumulation::gather_store) !=
                            Accumulation::gather_store),
      pool_(options.threads),
      preconditioner_(make_preconditioner<T>(options.preconditioner)) {
  if (model.scalars == 0) {
    throw Error(ErrorCode::NoParameters, "cpu engine: expected at least one parameter, got none");
  }
  refresh(model);
}

template <class T>
std::string CpuEngine<T>::device() const {
  const std::string threads = std::to_string(pool_.threads());
  return std::string("interpreter, ") + tile_ops<T>().name + ", " + threads +
         (threads == "1" ? " thread" : " threads");
}

template <class T>
std::string CpuEngine<T>::accumulation() const {
  std::string text(codegen::name(Accumulation::gather_store));
  if (other_strategy_asked_) text += " (the interpreter has no other strategy)";
  return text;
}

template <class T>
void CpuEngine<T>::refresh(const Model& model) {
  const auto start = std::chrono::steady_clock::now();
  const auto same = [](const ParameterArray& a, const ParameterArray& b) {
    return a.offset == b.offset && a.width == b.width && a.blocks == b.blocks;
  };
  const bool moved = scalars_ != model.scalars || !std::ranges::equal(arrays_, model.arrays, same);
  if (moved) {
    arrays_ = model.arrays;
    layout_ = BlockLayout(arrays_);
    resize(model.scalars);
  }
  rows_ = model.rows;
  constant_ = model.constant;
  if (std::ranges::all_of(constant_, [](std::uint8_t c) { return c == 0; })) constant_.clear();
  lower_ = model.lower;
  upper_ = model.upper;
  held_ = constant_;
  uniforms_ = Column<T>(model.uniforms.size());
  std::ranges::transform(model.uniforms, uniforms_.data(),
                         [](double u) { return static_cast<T>(u); });
  rebuild_terms(model, moved);
  preconditioner_->follow(model);
  linear_ = trial_ready_ = false;
  stats_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
void CpuEngine<T>::resize(std::uint64_t scalars) {
  scalars_ = scalars;
  for (Column<T>* v : {&x_, &trial_, &gradient_, &delta_, &direction_, &sums_}) {
    *v = Column<T>(scalars);
    zero(*v);
  }
  blocks_ = Column<T>(layout_.packed_scalars());
  scale_ = Column<T>(scalars);
  damping_ = Column<T>(scalars);
  scaled_ = false;
}

// Terms whose batch has the same structure keep their columns; topologies keep their kernels.
template <class T>
void CpuEngine<T>::rebuild_terms(const Model& model, bool all) {
  std::map<const ir::Batch*, std::unique_ptr<TermState<T>>> old;
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
    if (kernels == nullptr) kernels = std::make_shared<typename TermState<T>::Kernels>();
    terms_.push_back(std::make_unique<TermState<T>>(term, layout_, model.scalars,
                                                    model.uniforms.size(), kernels));
  }
}

template <class T>
void CpuEngine<T>::check_size(const char* call, const char* what, std::size_t expected,
                              std::size_t got) const {
  if (expected == got) return;
  throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) + " " +
                                    what + ", got " + std::to_string(got));
}

template <class T>
void CpuEngine<T>::zero(Column<T>& v) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    std::fill(v.data() + begin, v.data() + end, T(0));
  });
}

template <class T>
void CpuEngine<T>::mask(Column<T>& v, const std::vector<std::uint8_t>& held) {
  if (held.empty()) return;
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) v[i] = held[i] != 0 ? T(0) : v[i];
  });
}

template <class T>
void CpuEngine<T>::read(std::span<const double> in, Column<T>& v) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) v[i] = static_cast<T>(in[i]);
  });
}

template <class T>
void CpuEngine<T>::write(const Column<T>& v, std::span<double> out) {
  pool_.for_ranges(v.size(), kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = double{v[i]};
  });
}

template <class T>
void CpuEngine<T>::set_point(std::span<const double> x) {
  check_size("set_point", "scalars", scalars_, x.size());
  read(x, x_);
  linear_ = trial_ready_ = moved_ = false;
}

template <class T>
void CpuEngine<T>::point(std::span<double> x) {
  check_size("point", "scalars", scalars_, x.size());
  write(x_, x);
  keep_in_box(x);
}

template <class T>
bool CpuEngine<T>::last_known_point(std::span<double> x) {
  point(x);
  return true;
}

template <class T>
Vectors<T> CpuEngine<T>::vectors(const Column<T>& x, const Column<T>* p) const {
  return {x.data(), p == nullptr ? nullptr : p->data(), uniforms_.data()};
}

template class CpuEngine<float>;
template class CpuEngine<double>;

std::unique_ptr<Engine> make_cpu_engine(const Model& model, const EngineOptions& options) {
  switch (options.precision) {
    case Precision::f32: return std::make_unique<CpuEngine<float>>(model, options);
    case Precision::mixed:
    case Precision::f64: return std::make_unique<CpuEngine<double>>(model, options);
  }
  throw Error(ErrorCode::Internal, "cpu engine: unknown precision");
}

}  // namespace topograd::runtime::cpu
