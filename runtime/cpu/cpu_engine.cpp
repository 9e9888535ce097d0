// The CPU engine: construction, refresh, plan and memory, and times of evaluations.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../engine/engine.hpp"
#include "../linear/dense.hpp"
#include "cpu_steps.hpp"
#include "engine.hpp"
#include "interpreter/interpreter.hpp"
#include "tiles/column.hpp"

namespace topograd::runtime::cpu {

/// Evaluates at its point; steps are those of CpuSteps.
template <class T>
class CpuEngine final : public Engine,
                        public SecondDerivatives,
                        public SeveralValues,
                        public KnownPoint,
                        public Plans,
                        public EngineMeasurements {
 public:
  CpuEngine(const Model& model, const EngineOptions& options, Bits bits, DeviceParts device = {});

  Abilities abilities() override {
    return {.steps = &steps_,
            .step_lengths = &steps_,
            .last_step = &steps_,
            .second_derivatives = this,
            .several_values = this,
            .guards = &steps_,
            .known_point = this,
            .plans = this,
            .measurements = this};
  }
  Backend backend() const override { return Backend::cpu; }
  std::string device() const override;
  EngineStats stats() const override {
    EngineStats stats = terms_.stats();
    const std::uint64_t on_device = terms_.runs_on_device();
    stats.kernels_on_device += on_device;
    stats.kernels_on_cpu -= on_device;
    return stats += steps_.narrow_stats();
  }
  std::string accumulation() const override;
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override {
    return make_row_runner(sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64,
                           terms_.bits());
  }
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override { steps_.set_point(x); }
  void point(std::span<double> x) override { steps_.point(x); }
  bool last_known_point(std::span<double> x) override;
  double cost() override { return terms_.cost(steps_.x()); }
  void residuals(std::span<double> out) override;
  void gradient(std::span<double> out) override;
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override;
  void jvp(std::span<const double> p, std::span<double> out) override;
  void vjp(std::span<const double> seeds, std::span<double> out) override;
  void jtjp(std::span<const double> p, std::span<double> out) override {
    sum_along(Part::Jtjp, p, out);
  }
  void hvp(std::span<const double> p, std::span<double> out) override {
    sum_along(Part::Hvp, p, out);
  }
  void hessian(std::size_t term, bool project, std::span<double> values) override;

  Timing time(Pass pass, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override {
    return steps_.time_step(iterations, damping, samples);
  }
  double copy_rate() override { return cpu::copy_rate(terms_.pool()); }
  std::vector<MemoryUse> memory() const override;

 private:
  /// Sums a part along p into `out`.
  void sum_along(Part part, std::span<const double> p, std::span<double> out);
  /// The work that time() measures, with all data resident.
  std::function<void()> work_of(Pass pass);

  bool other_strategy_asked_ = false;
  CpuTerms<T> terms_;
  CpuSteps<T> steps_;
  Column<T> direction_, sums_;
};

template <class T>
CpuEngine<T>::CpuEngine(const Model& model, const EngineOptions& options, Bits bits,
                        DeviceParts device)
    : other_strategy_asked_(options.accumulation.value_or(Accumulation::gather_store) !=
                            Accumulation::gather_store),
      terms_(options, bits, std::move(device.rows)),
      steps_(terms_, options, std::move(device.solver)) {
  if (model.scalars == 0) {
    throw Error(ErrorCode::NoParameters, "cpu engine: expected at least one parameter, got none");
  }
  refresh(model);
}

template <class T>
std::string CpuEngine<T>::device() const {
  const std::string here =
      interpreter_name(sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64,
                       terms_.pool().threads(), terms_.bits());
  return terms_.device() == nullptr ? here : terms_.device()->device() + "; sums: " + here;
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
  const bool moved = terms_.follow(model);
  if (moved) {
    for (Column<T>* v : {&direction_, &sums_}) {
      *v = Column<T>(terms_.scalars());
      terms_.zero(*v);
    }
  }
  steps_.follow(model, moved);
  terms_.stats().plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
bool CpuEngine<T>::last_known_point(std::span<double> x) {
  point(x);
  return true;
}

template <class T>
PlanRecord CpuEngine<T>::plan() const {
  PlanRecord record;
  record.device = device();
  record.precision = sizeof(T) == sizeof(float) ? "f32" : "f64";
  record.product = "stored_jacobian";
  for (const auto& term : terms_.all()) {
    for (PlanChoice& made : term->kernels_made()) record.batches.push_back(std::move(made));
  }
  return record;
}

template <class T>
std::vector<MemoryUse> CpuEngine<T>::memory() const {
  std::vector<MemoryUse> uses = together(terms_.memory(), steps_.memory());
  uses =
      together(std::move(uses), {{kVectorsOfUnknowns, bytes_of(direction_) + bytes_of(sums_), 0}});
  std::erase_if(uses, [](const MemoryUse& use) { return use.host == 0; });
  return uses;
}

template <class T>
std::function<void()> CpuEngine<T>::work_of(Pass pass) {
  const auto store = [this](Part part) {
    return [this, part] {
      for (const auto& term : terms_.all()) {
        if (term->energy() && part != Part::Hessian) continue;
        term->store(terms_.pool(), terms_.workers(), part, terms_.vectors(steps_.x(), &direction_));
        ++terms_.stats().kernels_on_cpu;
      }
    };
  };
  const auto sum = [this](Part part) {
    return [this, part] { terms_.sum(part, terms_.vectors(steps_.x(), &direction_), sums_); };
  };
  switch (pass) {
    case Pass::residual: return store(Part::Residual);
    case Pass::cost: return [this] { cost(); };
    case Pass::gradient: return sum(Part::Gradient);
    case Pass::jacobian: return [this] { steps_.system().store_jacobian(steps_.x()); };
    case Pass::jtjp: return sum(Part::Jtjp);
    case Pass::blocks:
      return [this] {
        steps_.system().store_jacobian(steps_.x());
        steps_.system().blocks();
      };
    case Pass::jvp: return store(Part::Jvp);
    case Pass::vjp: return sum(Part::Vjp);
    case Pass::hvp: return sum(Part::Hvp);
    case Pass::hessian: return store(Part::Hessian);
    case Pass::cost_gradient: return [this] { terms_.evaluate(steps_.x(), {}, sums_); };
    case Pass::values:
      return [this, rows = std::vector<double>(terms_.rows())]() mutable {
        terms_.evaluate(steps_.x(), rows, sums_);
      };
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(ErrorCode::Unsupported, "cpu engine: " + std::string(name(pass)) + " has no time");
}

template <class T>
Timing CpuEngine<T>::time(Pass pass, int warm_ups, int samples) {
  std::fill(direction_.data(), direction_.data() + direction_.size(), T(1));
  terms_.mask(direction_, terms_.constant());
  if (pass == Pass::vjp) terms_.set_seeds(std::vector<double>(terms_.rows(), 1.0));
  const double us = median_time(warm_ups, samples, work_of(pass));
  return {.device_us = us, .wall_us = us};
}

std::string interpreter_name(Precision precision, int threads, Bits bits) {
  const char* const set =
      precision == Precision::f32 ? tile_ops<float>().name : tile_ops<double>().name;
  return std::string("interpreter, ") + set + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads") +
         (bits == Bits::portable ? ", portable bits" : "");
}

std::unique_ptr<Engine> make_cpu_engine(const Model& model, const EngineOptions& options, Bits bits,
                                        DeviceParts device) {
  switch (options.precision) {
    case Precision::f32:
      if (device.rows != nullptr)
        throw Error(ErrorCode::Unsupported, "cpu engine: a device evaluates for it in f64 alone");
      return std::make_unique<CpuEngine<float>>(model, options, bits);
    case Precision::mixed:
    case Precision::f64:
      return std::make_unique<CpuEngine<double>>(model, options, bits, std::move(device));
  }
  throw Error(ErrorCode::Internal, "cpu engine: unknown precision");
}
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
    const SlotSource& source = index.slots[slot];
    return constant[index.block_slots[source.block_slot].base[i] + source.offset] != 0;
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
    SymmetricEigen eigen;
    for (std::size_t i = begin; i < end; ++i)
      remove_negative_part(static_cast<Eigen::Index>(n), &values[i * size], eigen);
  });
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
