// Making a Vulkan engine and evaluating at the current point.
#include "engine.hpp"

#include "../../ir/error.hpp"
#include "../device/check/rows.hpp"
#include "vulkan_engine.hpp"

#include <algorithm>
#include <chrono>

namespace topograd::runtime::vulkan {
namespace {

bool same_charts(const Charts* a, const Charts* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

/// A software device takes as long for an inverse of 1,000 rows as for 1,000 products of a model
/// with 60,000 residuals and unknowns.
std::uint64_t slow_inverse(const Context& context, const Model& model) {
  return context.device->info().software() ? 16 * (model.rows + model.scalars) : 0;
}

}  // namespace

VulkanEngine::VulkanEngine(const Model& model, const EngineOptions& options)
    : source_(model),
      options_(options),
      context_(open_context(options)),
      coarse_{.control = CoarseControl(options.preconditioner, slow_inverse(context_, model))} {
  build();
}

void VulkanEngine::order_model() {
  const auto start = std::chrono::steady_clock::now();
  order_ = find_order(source_);
  ordered_batches_.clear();
  if (order_.identity()) {
    model_ = source_;
  } else {
    OrderedModel ordered = reorder(source_, order_);
    model_ = std::move(ordered.model);
    ordered_batches_ = std::move(ordered.batches);
  }
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void VulkanEngine::write_vector(const Buffer& buffer, std::span<const double> values) {
  if (order_.identity()) return write_numbers(context_, buffer, values);
  std::vector<double> ordered(values.size());
  order_.apply(values, ordered);
  write_numbers(context_, buffer, ordered);
}

void VulkanEngine::read_vector(const Buffer& buffer, std::span<double> values) {
  if (order_.identity()) return read_numbers(context_, buffer, values);
  std::vector<double> ordered(values.size());
  read_numbers(context_, buffer, ordered);
  order_.undo(ordered, values);
}

/// Results of what was begun are read before what it reads goes away.
void VulkanEngine::change(Source& source) {
  finish_begun();
  source.changed();
}

void VulkanEngine::build() {
  change(recorder_.structure);
  coarse_.control.model_changed();
  order_model();
  terms_.clear();
  structure_versions_.clear();
  data_versions_.clear();
  remote_.clear();
  for (const Term& term : source_.terms) {
    structure_versions_.push_back(term.batch->structure_version());
    data_versions_.push_back(term.batch->data_version());
    remote_.push_back(term.batch->has_remote());
  }
  for (std::size_t k = 0; k < model_.terms.size(); ++k) {
    const Term& term = model_.terms[k];
    terms_.push_back(
        term.batch->size() == 0 ? nullptr : std::make_unique<DeviceTerm>(context_, term, model_));
    if (terms_.back()) terms_.back()->follow_own_data(*source_.terms[k].batch);
  }
  sums_->stored.resize(terms_.size());
  v_ = {};
  v_ = StepVectors(context_, model_,
                   options_.preconditioner == Preconditioner::block_jacobi ? 0 : kMostCoarse);
  scale_is_set_ = false;
  uniforms_ = make_buffer(context_, model_.uniforms, "uniforms");
  make_box();
  make_charts();
  std::uint64_t cost_partials = 0;
  for (const auto& term : terms_) cost_partials += term ? term->cost_partials() : 0;
  cost_partials_ = v_.ops->make_partials(cost_partials);
  const bool guards =
      std::ranges::any_of(terms_, [](const auto& term) { return term && term->has_guards(); });
  failures_ = guards ? make_buffer(context_, std::vector<std::uint32_t>{0}, "failures") : Buffer();
  find_mask();
}

void VulkanEngine::refresh(const Model& model) {
  const bool same_unknowns =
      model.scalars == source_.scalars && model.arrays.size() == source_.arrays.size();
  bool rebuild = model.terms.size() != source_.terms.size() || !same_unknowns ||
                 model.uniforms.size() != source_.uniforms.size();
  for (std::size_t k = 0; !rebuild && k < model.terms.size(); ++k) {
    rebuild = model.terms[k].batch != source_.terms[k].batch ||
              model.terms[k].loss != source_.terms[k].loss ||
              model.terms[k].batch->structure_version() != structure_versions_[k] ||
              model.terms[k].batch->has_remote() != remote_[k];
  }
  const bool constants = model.constant != source_.constant ||
                         model.lower.empty() != source_.lower.empty() ||
                         !same_charts(model.charts.get(), source_.charts.get());
  const bool uniforms = model.uniforms != source_.uniforms;
  taken_->reset();
  source_ = model;
  if (rebuild || constants) return same_unknowns ? this->rebuild() : build();
  bool data_changed = false;
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    const ir::Batch& batch = *model.terms[k].batch;
    if (batch.data_version() == data_versions_[k]) continue;
    data_versions_[k] = batch.data_version();
    const bool own = terms_[k] && terms_[k]->follow_own_data(batch);
    if (!order_.identity()) refresh_data(batch, order_.rows[k], *ordered_batches_[k], own);
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
  refresh_box();
  model_.uniforms = source_.uniforms;
  if (uniforms) write_numbers(context_, uniforms_, model_.uniforms);
}

const Recorded& VulkanEngine::evaluation(const std::string& name,
                                         const std::function<void(CommandList&)>& record) {
  const auto found = evaluations_->find(name);
  if (found != evaluations_->end()) return found->second;
  recorder_.collect(record);
  recorder_.finish_kernels();
  return evaluations_->emplace(name, recorder_.make_list(name, record)).first->second;
}

void VulkanEngine::evaluate(const std::string& name,
                            const std::function<void(CommandList&)>& record) {
  recorder_.submit(evaluation(name, record));
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
  write_vector(v_.x, x);
}

double VulkanEngine::cost() {
  evaluate("cost", [&](CommandList& list) {
    record_cost(list, v_.x, Scalar::cost);
    v_.ops->record_read(list);
  });
  return v_.ops->read(recorder_.last())[codegen::slot(Scalar::cost)];
}

void VulkanEngine::residuals(std::span<double> out) {
  read_rows(Pass::residual, operands(v_.x), out);
}

void VulkanEngine::jvp(std::span<const double> p, std::span<double> out) {
  write_vector(v_.direction, p);
  read_rows(Pass::jvp, operands(v_.x, &v_.direction), out);
}

void VulkanEngine::gradient(std::span<double> out) { evaluate_sum(Pass::gradient, out); }

void VulkanEngine::jtjp(std::span<const double> p, std::span<double> out) {
  write_vector(v_.direction, p);
  evaluate_sum(Pass::jtjp, out);
}

void VulkanEngine::evaluate_sum(Pass pass, std::span<double> out) {
  used_sums_.insert(pass);
  evaluate(std::string(name(pass)), [&](CommandList& list) {
    record_sum(list, pass, operands(v_.x, &v_.direction), v_.result);
    result_landing_->record(context_, list, v_.result);
  });
  read_landed(*result_landing_, recorder_.last(), out);
}

void VulkanEngine::read_landed(const Landing& landing, const Submission& after,
                               std::span<double> out) {
  if (order_.identity()) return landing.read(context_, after, v_.result, context_.wide(), out);
  std::vector<double> ordered(out.size());
  landing.read(context_, after, v_.result, context_.wide(), ordered);
  order_.undo(ordered, out);
}

std::unique_ptr<Engine> make_vulkan_engine(const Model& model, const EngineOptions& options) {
  return std::make_unique<VulkanEngine>(model, options);
}

std::unique_ptr<RowRunner> make_row_runner(const EngineOptions& options) {
  return make_row_runner(LaunchContext(open_context(options)));
}

}  // namespace topograd::runtime::vulkan
