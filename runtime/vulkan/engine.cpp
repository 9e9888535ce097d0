// Making a Vulkan engine and evaluating at the current point.
#include "engine.hpp"

#include "../../ir/error.hpp"
#include "../device/check/rows.hpp"
#include "vulkan_engine.hpp"

#include <algorithm>
#include <chrono>

namespace topograd::runtime::vulkan {
namespace {

/// A software device takes as long for an inverse of 1,000 rows as for 1,000 products of a model
/// with 60,000 residuals and unknowns.
std::uint64_t slow_inverse(const Context& context, const Model& model) {
  return context.device->info().software() ? 16 * (model.rows + model.scalars) : 0;
}

}  // namespace

VulkanEngine::VulkanEngine(const Model& model, const EngineOptions& options)
    : options_(options),
      context_(open_context(options)),
      problem_(context_, model),
      coarse_{.control = CoarseControl(options.preconditioner, slow_inverse(context_, model))} {
  build();
}

/// Results of what was begun are read before what it reads goes away.
void VulkanEngine::change(Source& source) {
  finish_begun();
  source.changed();
}

void VulkanEngine::build() {
  change(recorder_.structure);
  coarse_.control.model_changed();
  problem_.arrange();
  terms_.build();
  sums_->stored.resize(terms_.size());
  v_ = {};
  v_ = StepVectors(context_, problem_.model(),
                   options_.preconditioner == Preconditioner::block_jacobi ? 0 : kMostCoarse);
  scale_is_set_ = false;
  make_box();
  make_charts();
  find_mask();
}

void VulkanEngine::rebuild() {
  const std::vector<double> none(problem_.model().scalars);
  std::vector<double> x = none, trial = none, scale = none, step = none;
  problem_.read(v_.x, x);
  problem_.read(v_.trial, trial);
  problem_.read(v_.scale, scale);
  problem_.read(v_.step, step);
  const bool scaled = scale_is_set_;
  build();
  problem_.write(v_.x, x);
  problem_.write(v_.trial, trial);
  problem_.write(v_.scale, scale);
  problem_.write(v_.step, step);
  scale_is_set_ = scaled;
}

void VulkanEngine::refresh(const Model& model) {
  const ModelChange changed = problem_.follow(model);
  taken_->reset();
  if (changed.structure) return changed.unknowns ? build() : rebuild();
  bool data_changed = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!problem_.data_changed(k)) continue;
    const bool own = terms_[k] && terms_[k]->follow_own_data(*model.terms[k].batch);
    problem_.reorder_data(k, own);
    if (terms_[k] && terms_[k]->refresh_data(own)) change(recorder_.columns);
    if (terms_[k] && !terms_[k]->shares_numbers()) {
      if (code_stage_ == CodeStage::serving) change(recorder_.columns);
      drop_code();
    }
    data_changed = true;
  }
  for (const auto* order : {&sums_->fused_order, &mask_.sums.fused_order}) {
    for (const FusedProduct& product : *order) {
      if (data_changed && product.riders) product.riders->refresh_data();
    }
  }
  if (changed.bounds) write_box();
  if (changed.uniforms) terms_.write_uniforms();
}

EngineStats VulkanEngine::stats() const {
  const Transfers transfers = context_.device->transfers();
  const CompileStats compile = context_.compiled->stats();
  EngineStats stats;
  stats.kernels_on_device = recorder_.dispatches();
  stats.submissions = transfers.submissions;
  stats.readbacks = transfers.readbacks;
  stats.bytes_up = transfers.bytes_up;
  stats.bytes_down = transfers.bytes_down;
  stats.shaders_compiled = compile.compiled;
  stats.shader_cache_hits = compile.disk_hits + compile.memory_hits;
  stats.plan_seconds = context_.plan_seconds;
  stats.glsl_ms = compile.glsl_ms;
  stats.spirv_ms = compile.spirv_ms;
  stats.pipeline_ms = compile.pipeline_ms;
  stats.device_bytes = context_.device->memory().bytes_reserved;
  stats.compile_wall_ms = compile.wall_ms;
  return stats;
}

std::string VulkanEngine::accumulation() const {
  std::string text(codegen::name(context_.rung.accumulation));
  if (!context_.rung.why.empty()) text += " (" + context_.rung.why + ")";
  const auto stores = [&](const auto& made) {
    return !options_.accumulation && made.second.choice.accumulation == Accumulation::gather_store;
  };
  const auto count = std::ranges::count_if(sums_->decisions, stores);
  if (count > 0) {
    text += count == static_cast<std::ptrdiff_t>(sums_->decisions.size())
                ? ": gather_store in all of its batches"
                : ", gather_store for some batches";
  }
  return text;
}

void VulkanEngine::set_point(std::span<const double> x) {
  if (!linear_lists_->linearize.list) {  // else at the next linearisation
    follow_mask();
    follow_numbers();
  }
  staging_->forget();
  taken_->reset();
  problem_.write(v_.x, x);
}

double VulkanEngine::cost() {
  recorder_.evaluate("cost", [&](CommandList& list) {
    terms_.record_cost(list, v_.x, Scalar::cost);
    v_.ops->record_read(list);
  });
  return v_.ops->read(recorder_.last())[codegen::slot(Scalar::cost)];
}

void VulkanEngine::residuals(std::span<double> out) {
  rows_.read(Pass::residual, terms_.operands(v_.x), out);
}

void VulkanEngine::jvp(std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  rows_.read(Pass::jvp, terms_.operands(v_.x, &v_.direction), out);
}

void VulkanEngine::gradient(std::span<double> out) { evaluate_sum(Pass::gradient, out); }

void VulkanEngine::jtjp(std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  evaluate_sum(Pass::jtjp, out);
}

void VulkanEngine::hvp(std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  evaluate_sum(Pass::hvp, out);
}

void VulkanEngine::evaluate_sum(Pass pass, std::span<double> out) {
  used_sums_.insert(pass);
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    record_sum(list, pass, terms_.operands(v_.x, &v_.direction), v_.result);
    result_landing_->record(context_, list, v_.result);
  });
  problem_.read(*result_landing_, recorder_.last(), v_.result, out);
}

std::unique_ptr<Engine> make_vulkan_engine(const Model& model, const EngineOptions& options) {
  return std::make_unique<VulkanEngine>(model, options);
}

std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options) {
  return make_row_runner(LaunchContext(open_context(options)));
}

}  // namespace topograd::runtime::vulkan
