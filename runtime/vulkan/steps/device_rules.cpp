// Rules for steps along gradients, and the best point that they led to.
#include "device_rules.hpp"

#include "../../../ir/machine/state_record.hpp"
#include "trial_gradient.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;

codegen::Scalar user_scalar(std::uint32_t place) {
  return static_cast<codegen::Scalar>(codegen::slot(codegen::Scalar::user) + place);
}

}  // namespace

void DeviceRules::make_vectors() {
  if (state_->mean) return;
  for (Buffer* vector : {&state_->mean, &state_->square, &state_->best})
    *vector = make_numbers(context_, problem_.model().scalars, "first_order");
}

bool DeviceRules::prepare() {
  make_vectors();
  return recorder_.advance(state_->preparation, [this](CommandList& list) {
    record_rule(list, FirstOrderRule::Kind::adam);
    record_rule(list, FirstOrderRule::Kind::momentum);
  });
}

void DeviceRules::make_lists() {
  make_vectors();
  State& state = *state_;
  if (state.begin.list) return;
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  sums_.use(Pass::cost_gradient);
  using Kind = FirstOrderRule::Kind;
  const auto forget = [this, bytes](CommandList& list) {
    for (const Buffer* vector : {&state_->mean, &state_->square}) list.fill(*vector, 0, bytes, 0);
  };
  const auto begin = [&](CommandList& list) {
    forget(list);
    list.copy(v_.x, 0, state.best, 0, bytes);
    list.copy(v_.x, 0, v_.trial, 0, bytes);
    list.barrier();
    record_trial_gradient(list, problem_.model().scalars, v_, sums_);
  };
  const auto keep_best = [&](CommandList& list) {
    record_kept(list);
    list.copy(v_.trial, 0, state.best, 0, bytes);
  };
  recorder_.make_lists(
      {{state.begin, "first_order_begin", begin},
       {state.adam, "adam", [this](CommandList& list) { record_rule(list, Kind::adam); }},
       {state.momentum, "momentum",
        [this](CommandList& list) { record_rule(list, Kind::momentum); }},
       {state.keep, "first_order_keep", [this](CommandList& list) { record_kept(list); }},
       {state.keep_best, "first_order_best", keep_best},
       {state.forget, "first_order_forget", forget}});
  for (std::size_t k = 0; k < state.stage.size(); ++k) {
    state.staged.points[k] = context_.device->buffer(bytes, MemoryKind::Upload, "staged_best");
    state.stage[k] = recorder_.make_list("first_order_stage", [&](CommandList& list) {
      list.copy(v_.trial, 0, state.staged.points[k], 0, bytes);
    });
  }
}

void DeviceRules::record_kept(CommandList& list) {
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  list.copy(v_.trial, 0, v_.x, 0, bytes);
  list.copy(v_.result, 0, v_.gradient, 0, bytes);
}

void DeviceRules::record_rule(CommandList& list, FirstOrderRule::Kind kind) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  list.barrier();
  const std::uint32_t groups =
      kind == FirstOrderRule::Kind::adam
          ? v_.ops->record(list, kernel::adam{{.point = v_.x,
                                               .gradient = v_.gradient,
                                               .means = state_->mean,
                                               .squares = state_->square,
                                               .result = v_.trial,
                                               .partials = v_.partials},
                                              {.count = n, .rule = Scalar::user}})
          : v_.ops->record(list, kernel::momentum{{.point = v_.x,
                                                   .gradient = v_.gradient,
                                                   .means = state_->mean,
                                                   .result = v_.trial,
                                                   .partials = v_.partials},
                                                  {.count = n, .rule = Scalar::user}});
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::step_squared, 1);
  list.barrier();
  record_trial_gradient(list, problem_.model().scalars, v_, sums_);
}

FirstOrderReport DeviceRules::report() {
  const auto& values = v_.ops->read(recorder_.last());
  const auto at = [&](Scalar s) { return values[codegen::slot(s)]; };
  return {.cost = at(Scalar::trial_cost),
          .gradient_max_norm = at(Scalar::gradient_max),
          .gradient_norm = std::sqrt(at(Scalar::gradient_squared)),
          .step_norm = std::sqrt(at(Scalar::step_squared))};
}

FirstOrderReport DeviceRules::begin_steps() {
  follow_();
  make_lists();
  state_->pending.clear();
  state_->staged.forget();
  const Recorded* const lists[] = {&state_->begin, &state_->keep};
  recorder_.submit(lists);
  return report();
}

void DeviceRules::set_means(std::span<const double> mean, std::span<const double> square) {
  problem_.write(state_->mean, mean);
  problem_.write(state_->square, square);
}

FirstOrderReport DeviceRules::try_rule(const FirstOrderRule& rule) {
  const bool adam = rule.kind == FirstOrderRule::Kind::adam;
  const double numbers[] = {rule.rate,        adam ? rule.beta1 : rule.momentum,
                            rule.beta2,       rule.mean_bias,
                            rule.square_bias, rule.epsilon,
                            rule.decay};
  std::vector<std::pair<Scalar, double>> scalars;
  for (const double value : numbers)
    scalars.emplace_back(user_scalar(static_cast<std::uint32_t>(scalars.size())), value);
  v_.ops->write(scalars);
  State& state = *state_;
  state.pending.push_back(adam ? &state.adam : &state.momentum);
  recorder_.submit(state.pending);
  state.pending.clear();
  const FirstOrderReport made = report();
  state.staged.arrive();  // it was queued before
  return made;
}

void DeviceRules::keep_trial(bool best) {
  State& state = *state_;
  state.pending.push_back(best ? &state.keep_best : &state.keep);
  if (best && state.staged.due()) state.pending.push_back(&state.stage[state.staged.begin()]);
}

void DeviceRules::forget_gradients() { state_->pending.push_back(&state_->forget); }

void DeviceRules::flush() {
  if (!state_->pending.empty()) recorder_.submit(state_->pending);
  state_->pending.clear();
}

void DeviceRules::transfer(ir::StateRecord& record) {
  flush();
  std::vector<double> numbers(problem_.model().scalars);
  const std::pair<std::string_view, const Buffer*> vectors[] = {
      {"mean of gradients", &state_->mean},
      {"mean of squared gradients", &state_->square},
      {"best point on the device", &state_->best}};
  for (const auto& [name, buffer] : vectors) {
    if (!record.restores()) problem_.read(*buffer, numbers);
    record.list(name, std::span(numbers));
    if (record.restores()) problem_.write(*buffer, numbers);
  }
}

void DeviceRules::current_point(std::span<double> x) {
  flush();
  problem_.read_point(v_.x, x);
}

void DeviceRules::best_point(std::span<double> x) {
  flush();
  problem_.read_point(state_->best, x);
}

bool DeviceRules::last_known_best(std::span<double> x) { return state_->staged.read(problem_, x); }

}  // namespace topograd::runtime::vulkan
