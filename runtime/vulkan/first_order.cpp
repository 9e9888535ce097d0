// Steps along gradients on the device.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// Points up to so many bytes are staged whenever they are the best, larger ones once in the
/// interval.
constexpr std::uint64_t kStagedAlways = std::uint64_t{1} << 20;
constexpr std::chrono::seconds kStagingInterval{1};

codegen::Scalar user_scalar(std::uint32_t place) {
  return static_cast<codegen::Scalar>(codegen::slot(codegen::Scalar::user) + place);
}

}  // namespace

void VulkanEngine::make_first_order_vectors() {
  if (first_order_->mean) return;
  for (Buffer* vector : {&first_order_->mean, &first_order_->square, &first_order_->best})
    *vector = make_numbers(context_, problem_.model().scalars, "first_order");
}

bool VulkanEngine::prepare_rules() {
  make_first_order_vectors();
  return recorder_.advance(first_order_->preparation, [this](CommandList& list) {
    record_rule(list, FirstOrderRule::Kind::adam);
    record_rule(list, FirstOrderRule::Kind::momentum);
  });
}

FirstOrderSteps* VulkanEngine::first_order_steps(bool wait) {
  if (shaped()) return nullptr;
  follow_mask();
  return wait || prepare_rules() ? this : nullptr;
}

void VulkanEngine::make_first_order() {
  make_first_order_vectors();
  FirstOrder& state = *first_order_;
  if (state.begin.list) return;
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  sums_.use(Pass::cost_gradient);
  using Kind = FirstOrderRule::Kind;
  const auto step = [this](CommandList& list, Kind kind) { record_rule(list, kind); };
  recorder_.collect([&](CommandList& list) {
    step(list, Kind::adam);
    step(list, Kind::momentum);
  });
  recorder_.finish_kernels();
  state.begin = recorder_.make_list("first_order_begin", [&](CommandList& list) {
    for (const Buffer* vector : {&state.mean, &state.square}) list.fill(*vector, 0, bytes, 0);
    list.copy(v_.x, 0, state.best, 0, bytes);
    list.copy(v_.x, 0, v_.trial, 0, bytes);
    list.barrier();
    record_trial_gradient(list);
  });
  state.adam = recorder_.make_list("adam", [&](CommandList& list) { step(list, Kind::adam); });
  state.momentum =
      recorder_.make_list("momentum", [&](CommandList& list) { step(list, Kind::momentum); });
  state.keep =
      recorder_.make_list("first_order_keep", [&](CommandList& list) { record_kept(list); });
  state.keep_best = recorder_.make_list("first_order_best", [&](CommandList& list) {
    record_kept(list);
    list.copy(v_.trial, 0, state.best, 0, bytes);
  });
  state.forget = recorder_.make_list("first_order_forget", [&](CommandList& list) {
    for (const Buffer* vector : {&state.mean, &state.square}) list.fill(*vector, 0, bytes, 0);
  });
  for (std::size_t k = 0; k < state.staged.size(); ++k) {
    state.staged[k] = context_.device->buffer(bytes, MemoryKind::Upload, "staged_best");
    state.stage[k] = recorder_.make_list("first_order_stage", [&](CommandList& list) {
      list.copy(v_.trial, 0, state.staged[k], 0, bytes);
    });
  }
}

void VulkanEngine::record_kept(CommandList& list) {
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  list.copy(v_.trial, 0, v_.x, 0, bytes);
  list.copy(v_.result, 0, v_.gradient, 0, bytes);
}

/// Cost and gradient at v_.trial, the latter to v_.result, for the host to read with its norms.
void VulkanEngine::record_trial_gradient(CommandList& list) {
  sums_.record_values(list, Pass::cost_gradient, v_.trial, v_.result, Scalar::trial_cost);
  BindingTable table = v_.table();
  table.set(BufferRole::fixed, v_.fixed);
  table.set(BufferRole::first_operand, v_.trial);
  table.set(BufferRole::gradient, v_.result);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  v_.ops->record(
      list, {.op = VectorOp::point_norms, .constants = {.count = n, .out_stride = groups}}, table);
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v_.ops->sum(list, v_.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  list.barrier();
  v_.ops->record_read(list);
}

void VulkanEngine::record_rule(CommandList& list, FirstOrderRule::Kind kind) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  table.set(BufferRole::direction, first_order_->mean);
  table.set(BufferRole::scale, first_order_->square);
  table.set(BufferRole::result, v_.trial);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  list.barrier();
  const std::uint32_t groups = v_.ops->record(
      list,
      {.op = kind == FirstOrderRule::Kind::adam ? VectorOp::adam : VectorOp::momentum,
       .constants = {.count = n, .a = codegen::slot(Scalar::user)}},
      table);
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::step_squared, 1);
  list.barrier();
  record_trial_gradient(list);
}

FirstOrderReport VulkanEngine::first_order_report() {
  const auto& values = v_.ops->read(recorder_.last());
  const auto at = [&](Scalar s) { return values[codegen::slot(s)]; };
  return {.cost = at(Scalar::trial_cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .step_norm = std::sqrt(at(Scalar::step_squared))};
}

FirstOrderReport VulkanEngine::begin_steps() {
  follow_mask();
  make_first_order();
  first_order_->pending.clear();
  first_order_->written = first_order_->arrived = -1;
  const Recorded* const lists[] = {&first_order_->begin, &first_order_->keep};
  recorder_.submit(lists);
  return first_order_report();
}

void VulkanEngine::set_means(std::span<const double> mean, std::span<const double> square) {
  problem_.write(first_order_->mean, mean);
  problem_.write(first_order_->square, square);
}

FirstOrderReport VulkanEngine::try_rule(const FirstOrderRule& rule) {
  const bool adam = rule.kind == FirstOrderRule::Kind::adam;
  const double numbers[] = {rule.rate,        adam ? rule.beta1 : rule.momentum,
                            rule.beta2,       rule.mean_bias,
                            rule.square_bias, rule.epsilon,
                            rule.decay};
  std::vector<std::pair<Scalar, double>> scalars;
  for (const double value : numbers)
    scalars.emplace_back(user_scalar(static_cast<std::uint32_t>(scalars.size())), value);
  v_.ops->write(scalars);
  FirstOrder& state = *first_order_;
  state.pending.push_back(adam ? &state.adam : &state.momentum);
  recorder_.submit(state.pending);
  state.pending.clear();
  const FirstOrderReport report = first_order_report();
  state.arrived = state.written;  // it was queued before
  return report;
}

void VulkanEngine::keep_trial(bool best) {
  FirstOrder& state = *first_order_;
  state.pending.push_back(best ? &state.keep_best : &state.keep);
  if (!best) return;
  const auto now = std::chrono::steady_clock::now();
  const bool small = problem_.model().scalars * context_.element_bytes() <= kStagedAlways;
  if (!small && state.written >= 0 && now - state.last < kStagingInterval) return;
  state.written = state.arrived == 0 ? 1 : 0;
  state.last = now;
  state.pending.push_back(&state.stage[static_cast<std::size_t>(state.written)]);
}

void VulkanEngine::forget_gradients() { first_order_->pending.push_back(&first_order_->forget); }

void VulkanEngine::best_point(std::span<double> x) {
  if (!first_order_->pending.empty()) recorder_.submit(first_order_->pending);
  first_order_->pending.clear();
  problem_.read_point(first_order_->best, x);
}

bool VulkanEngine::last_known_best(std::span<double> x) {
  if (first_order_->arrived < 0) return false;
  problem_.read_staged(first_order_->staged[static_cast<std::size_t>(first_order_->arrived)], x);
  return true;
}

}  // namespace topograd::runtime::vulkan
