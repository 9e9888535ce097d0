// The engine of one problem on one device: its parts, and evaluations at the current point.
#include "engine.hpp"

#include "../../ir/error.hpp"
#include "../device/kernels/launch.hpp"
#include "../rows/rows.hpp"
#include "damped/device_steps.hpp"
#include "parts/part_engine.hpp"
#include "steps/device_gradient_steps.hpp"
#include "terms/term_rows.hpp"
#include "terms/term_sums.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

class EvaluationKinds final : public KernelsAhead, public EngineMeasurements, Part {
 public:
  /// All of these outlive it.
  ///
  ///   narrow  has the linear systems of steps; null: `steps` has them
  EvaluationKinds(const Part& part, TermRows& rows, TermHessians& hessians, TermSums& sums,
                  NormalProducts& products, DeviceSteps& steps, Engine* narrow)
      : Part(part),
        rows_(rows),
        hessians_(hessians),
        sums_(sums),
        products_(products),
        steps_(steps),
        narrow_(narrow) {}

  bool prepare(Pass pass) override;
  bool prepare_step() override { return steps_.prepare_ahead(); }
  Timing time(Pass pass, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override;
  std::vector<MemoryUse> memory() const override;

 private:
  void record(CommandList& list, Pass pass);
  double time_copies();

  TermRows& rows_;
  TermHessians& hessians_;
  TermSums& sums_;
  NormalProducts& products_;
  DeviceSteps& steps_;
  Engine* narrow_;
  Derived<std::map<Pass, Preparation>> preparations_{recorder_.structure};
};

using codegen::Scalar;

bool EvaluationKinds::prepare(Pass pass) {
  return recorder_.advance((*preparations_)[pass], [&](CommandList& list) {
    // Hessians may be asked for without their negative part.
    if (pass == Pass::hessian && list.declared() != nullptr)
      hessians_.record_projection(list, 1, 1, no_buffer());
    if (pass != Pass::vjp) return record(list, pass);
    rows_.record_vjp(list);
  });
}

void EvaluationKinds::record(CommandList& list, Pass pass) {
  const Operands with_direction = terms_.operands(v_.x, &v_.x);
  switch (pass) {
    case Pass::residual:
    case Pass::hessian: return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jacobian:
      rows_.record(list, Pass::residual, terms_.operands(v_.x));
      return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jvp: return rows_.record(list, pass, with_direction);
    case Pass::cost: return terms_.record_cost(list, v_.x, Scalar::user);
    case Pass::gradient:
    case Pass::vjp: return sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.result);
    case Pass::jtjp: return products_.record(list, with_direction, v_.result);
    case Pass::blocks: return sums_.record_blocks(list, terms_.operands(v_.x));
    case Pass::hvp: return sums_.record(list, pass, with_direction, v_.result);
    case Pass::cost_gradient:
    case Pass::values: return sums_.record_values(list, pass, v_.x, v_.result, Scalar::user);
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(ErrorCode::Unsupported,
              "vulkan engine: " + std::string(name(pass)) + " is no evaluation");
}

Timing EvaluationKinds::time(Pass pass, int warm_ups, int samples) {
  steps_.prepare();
  auto kept = rows_.exchange_results({});  // rows of timings are let go of
  const auto timed = [&](CommandList& list) { stamped(list, [&] { record(list, pass); }); };
  Recorder::make(timed);
  const Recorded recorded = recorder_.make_list(name(pass), timed);
  recorder_.warm_up(recorded);
  const Timing timing = recorder_.time_list(recorded, warm_ups, samples);
  rows_.exchange_results(std::move(kept));
  return timing;
}

Timing EvaluationKinds::time_step(int iterations, double damping, int samples) {
  if (narrow_ != nullptr) {
    std::vector<double> x(problem_.model().scalars);
    problem_.read_point(v_.x, x);
    narrow_->set_point(x);
    return narrow_->abilities().measurements->time_step(iterations, damping, samples);
  }
  steps_.prepare();
  const StepRequest unscaled{.jacobi_scaling = false};
  Recorder::make([&](CommandList& list) {
    steps_.system().record_scale(list, unscaled);
    steps_.record_plain(list, 2);
  });
  recorder_.submit(recorder_.make_list(
      "unit_scale", [&](CommandList& list) { steps_.system().record_scale(list, unscaled); }));
  steps_.system().is_scaled() = false;
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, damping}, {Scalar::min_diagonal, 1.0}, {Scalar::max_diagonal, 1.0},
      {Scalar::tolerance, 0.0},  {Scalar::eta, 0.0},          {Scalar::max_iterations, iterations}};
  v_.ops->write(scalars);
  const auto timed = [&](CommandList& list) {
    stamped(list, [&] { steps_.record_plain(list, iterations); });
  };
  const Recorded recorded = recorder_.make_list("step", timed);
  recorder_.warm_up(recorded);
  return recorder_.time_list(recorded, 3, samples);
}

namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kSoftwareBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kPieces = 8, kPieceGranule = 4096;  // pieces begin where any device binds
constexpr int kCopyWarmUps = 2, kCopySamples = 9;

}  // namespace

double EvaluationKinds::copy_rate() {
  const double rate = time_copies();
  context_.device->trim();  // memory of the copies must not count as the engine's
  return rate;
}

// The faster of the driver's copy command and a kernel: some drivers leave commands to an engine
// that is slower than the memory.
double EvaluationKinds::time_copies() {
  const std::uint64_t wanted = context_.device->info().software() ? kSoftwareBytes : kBytes;
  const std::uint64_t most =
      std::min(context_.device->limits().max_allocation_size, context_.max_range());
  const std::uint64_t bytes = std::min(wanted, most) / kPieceGranule * kPieceGranule;
  const Buffer from = context_.device->buffer(bytes, MemoryKind::Device, "copy_source");
  const Buffer to = context_.device->buffer(bytes, MemoryKind::Device, "copy_target");
  recorder_.submit(
      recorder_.make_list("fill", [&](CommandList& list) { list.fill(from, 0, bytes, 1); }));
  const auto time = [&](const std::function<void(CommandList&)>& copy) {
    Recorded recorded;
    recorder_.make_lists(
        {{recorded, "copy", [&](CommandList& list) { stamped(list, [&] { copy(list); }); }}});
    recorder_.warm_up(recorded);
    return recorder_.time_list(recorded, kCopyWarmUps, kCopySamples).device_us;
  };
  const auto copy_by_kernels = [&](CommandList& list) {
    // Side by side: one grid of workgroups has too few loads under way for a large device.
    const std::uint64_t piece = bytes / kPieces;
    for (std::uint64_t k = 0; k < kPieces; ++k) {
      const auto count = static_cast<std::uint32_t>(piece / context_.element_bytes());
      v_.ops->record(
          list, kernel::copy{{.source = {from, k * piece, piece}, .result = {to, k * piece, piece}},
                             {.count = count}});
    }
  };
  const double by_command = time([&](CommandList& list) { list.copy(from, 0, to, 0, bytes); });
  const double by_kernel = time(copy_by_kernels);
  return 2 * static_cast<double>(bytes) / (std::min(by_command, by_kernel) * 1e-6);
}

std::vector<MemoryUse> EvaluationKinds::memory() const {
  std::vector<MemoryUse> uses;
  for (const auto& [name, bytes] : context_.device->memory_by_name())
    uses.push_back({name, 0, bytes});
  const MemoryStatistics pools = context_.device->memory();
  uses.push_back({"rounding up to size classes", 0, pools.bytes_padding});
  uses.push_back(
      {"pooled, free", 0, pools.bytes_reserved - pools.bytes_in_use - pools.bytes_padding});
  std::uint64_t plans = 0;
  for (const auto& term : terms_) plans += term ? term->host_bytes() : 0;
  uses.push_back({"order of blocks and instances", problem_.order_bytes(), 0});
  uses.push_back({"columns in that order", problem_.column_bytes(), 0});
  uses.push_back({"gather plans", plans, 0});
  uses.push_back({"numbers by scalar",
                  v_.diagonal_positions.capacity() * sizeof(std::uint32_t) +
                      problem_.source().constant.capacity() + problem_.model().constant.capacity(),
                  0});
  std::erase_if(uses, [](const MemoryUse& use) { return use.host + use.device == 0; });
  return narrow_ == nullptr ? uses : together(uses, narrow_->abilities().measurements->memory());
}

/// Evaluates at its point; whatever else it can do, its parts do.
class VulkanEngine final : public Engine,
                           public SecondDerivatives,
                           public SeveralValues,
                           public Guards,
                           public Plans {
 public:
  VulkanEngine(const Model& model, const EngineOptions& options);

  Abilities abilities() override {
    return {.steps = &steps_,
            .step_lengths = &steps_,
            .last_step = &steps_.system(),
            .elimination = &steps_.elimination(),
            .gradient_steps = &gradient_steps_,
            .second_derivatives = this,
            .several_values = this,
            .asynchronous = &begun_,
            .guards = this,
            .kernels_ahead = &kinds_,
            .known_point = &points_,
            .plans = this,
            .measurements = &kinds_};
  }
  Backend backend() const override { return Backend::vulkan; }
  std::string device() const override { return context_.device->info().name; }
  EngineStats stats() const override;
  std::string accumulation() const override { return sums_.choices().accumulation(); }
  PlanRecord plan() const override;
  std::unique_ptr<RowRunner> row_runner() const override {
    return make_row_runner(context_.options);
  }
  void refresh(const Model& model) override;

  void set_point(std::span<const double> x) override;
  void point(std::span<double> x) override { problem_.read_point(v_.x, x); }
  double cost() override;
  void residuals(std::span<double> out) override { vectors_.residuals(out); }
  void gradient(std::span<double> out) override { vectors_.gradient(out); }
  void evaluate(const Values& wanted) override;
  void jacobian(std::size_t term, std::span<double> values) override {
    rows_.jacobian(term, values);
  }
  void jvp(std::span<const double> p, std::span<double> out) override { vectors_.jvp(p, out); }
  void vjp(std::span<const double> seeds, std::span<double> out) override { rows_.vjp(seeds, out); }
  void jtjp(std::span<const double> p, std::span<double> out) override { vectors_.jtjp(p, out); }
  void hvp(std::span<const double> p, std::span<double> out) override { vectors_.hvp(p, out); }
  void hessian(std::size_t term, bool project, std::span<double> values) override {
    hessians_.read(term, project, values);
  }

  std::uint64_t failed_guards() override { return terms_.failed_guards(); }
  std::vector<std::uint32_t> failed_instances(std::size_t term, At at) override {
    return rows_.failed_instances(term, at);
  }
  double trial_cost() override { return steps_.trial_cost(); }

 private:
  void build();
  /// For the same unknowns: point and steps stay.
  void rebuild();

  Context context_;
  /// The same model in f32, where EngineOptions::narrow_system is set: it has the linear systems.
  std::unique_ptr<VulkanEngine> narrow_;
  DeviceModel problem_;
  Recorder recorder_{context_};
  StepVectors v_;
  DeviceTerms terms_{context_, problem_, v_};

  const Part part_{context_, recorder_, problem_, v_, terms_};

  // Evaluations.
  TermRows rows_{part_};
  TermHessians hessians_{part_};
  TermSums sums_{part_, rows_};
  NormalProducts products_{part_, sums_};
  PointVectors vectors_{part_, rows_, sums_};

  // Steps.
  PointMoves moves_{part_};
  AcceptedPoints points_{part_};
  BegunEvaluations begun_{part_, rows_, sums_, points_};
  KernelVariants variants_{part_, rows_, sums_, products_, begun_};
  DeviceSteps steps_{
      part_, sums_, products_, moves_, points_, variants_, narrow_ ? &narrow_->steps_ : nullptr};
  DeviceGradientSteps gradient_steps_{part_, sums_, points_, moves_,
                                      [this] { variants_.follow_fixed(); }};
  EvaluationKinds kinds_{part_, rows_, hessians_, sums_, products_, steps_, narrow_.get()};
};

namespace {

EngineOptions in_f32(EngineOptions options) {
  options.precision = Precision::f32;
  return options;
}

}  // namespace

VulkanEngine::VulkanEngine(const Model& model, const EngineOptions& options)
    : context_(open_context(options)),
      narrow_(options.narrow_system && context_.wide()
                  ? std::make_unique<VulkanEngine>(model, in_f32(options))
                  : nullptr),
      problem_(context_, model) {
  build();
}

void VulkanEngine::build() {
  begun_.finish();
  recorder_.structure.changed();
  steps_.system().preconditioner().model_changed();
  problem_.arrange();
  terms_.build();
  v_ = {};
  // The linear systems are those of the narrow engine: this one measures gradients by the diagonal,
  // which on a manifold comes from whole blocks.
  v_ = StepVectors(context_, problem_.model(), steps_.system().preconditioner().most_sums(),
                   narrow_ != nullptr && problem_.model().manifolds == nullptr);
  steps_.system().is_scaled() = false;
  moves_.build();
  variants_.build();
}

void VulkanEngine::rebuild() {
  const std::vector<double> none(problem_.model().scalars);
  std::vector<double> x = none, trial = none, scale = none, step = none;
  problem_.read(v_.x, x);
  problem_.read(v_.trial, trial);
  problem_.read(v_.scale, scale);
  problem_.read(v_.step, step);
  const bool scaled = steps_.system().is_scaled();
  build();
  problem_.write(v_.x, x);
  problem_.write(v_.trial, trial);
  problem_.write(v_.scale, scale);
  problem_.write(v_.step, step);
  steps_.system().is_scaled() = scaled;
}

void VulkanEngine::refresh(const Model& model) {
  const ModelChange changed = problem_.follow(model);
  points_.known().reset();
  if (narrow_) narrow_->refresh(model);
  if (changed.structure) return changed.unknowns ? build() : rebuild();
  bool data_changed = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!problem_.data_changed(k)) continue;
    const bool own = problem_.own_data_changed(k);
    problem_.reorder_data(k, own);
    if (terms_[k] && terms_[k]->refresh_data(own)) {
      begun_.finish();
      recorder_.columns.changed();
    }
    if (terms_[k] && !terms_[k]->numbers().hold()) variants_.numbers_changed();
    data_changed = true;
  }
  if (data_changed) variants_.refresh_data();
  if (changed.bounds) moves_.write_bounds();
  if (changed.uniforms) terms_.write_uniforms();
}

EngineStats VulkanEngine::stats() const {
  EngineStats stats = recorder_.stats();
  if (narrow_) stats += narrow_->stats();
  return stats;
}

PlanRecord VulkanEngine::plan() const {
  PlanRecord record{.device = device(),
                    .precision = std::string(codegen::name(context_.options.precision)),
                    .workgroup_size = context_.workgroup_size,
                    .product = products_.name()};
  sums_.choices().describe(record);
  for (const auto& job : context_.loaded) {
    if (!job->ready()) continue;
    try {
      const MadeKernel& made = job->get();
      KernelFigures& kernel = record.kernels.emplace_back(made.kernel.figures());
      kernel.glsl_ms = made.glsl_ms;
      kernel.spirv_ms = made.spirv_ms;
      kernel.pipeline_ms = made.pipeline_ms;
      kernel.origin = name(made.origin);
    } catch (const Error&) {
      continue;  // whoever needs that kernel is told
    }
  }
  return record;
}

void VulkanEngine::set_point(std::span<const double> x) {
  if (!steps_.prepared()) variants_.follow();  // else at the next linearisation
  points_.staged().forget();
  points_.set(x);
}

double VulkanEngine::cost() {
  recorder_.evaluate("cost", [&](CommandList& list) {
    terms_.record_cost(list, v_.x, Scalar::cost);
    v_.ops->record_read(list);
  });
  return v_.ops->read(recorder_.last())[codegen::slot(Scalar::cost)];
}

void VulkanEngine::evaluate(const Values& wanted) {
  if (!wanted.several()) return evaluate_in_turn(*this, wanted);
  const bool rows = !wanted.residuals.empty();
  const Pass pass = rows ? Pass::values : Pass::cost_gradient;
  sums_.use(pass);
  std::vector<Readback>& readbacks = rows_.readbacks(Pass::residual);
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    sums_.record_values(list, pass, v_.x, v_.result, Scalar::cost);
    vectors_.readback().record(context_, list, v_.result);
    v_.ops->record_read(list);
    if (rows) rows_.record_readbacks(list, Pass::residual, readbacks, false);
  });
  if (wanted.cost != nullptr)
    *wanted.cost = v_.ops->read(recorder_.last())[codegen::slot(Scalar::cost)];
  problem_.read(vectors_.readback(), recorder_.last(), v_.result, wanted.gradient);
  if (rows) rows_.copy(Pass::residual, readbacks, recorder_.last(), wanted.residuals);
}

std::unique_ptr<Engine> make_vulkan_engine(const Model& model, const EngineOptions& options) {
  if (options.part != nullptr) return std::make_unique<PartEngine>(model, options);
  return std::make_unique<VulkanEngine>(model, options);
}

std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options) {
  return make_row_runner(LaunchContext(open_context(options)));
}

}  // namespace topograd::runtime::vulkan
