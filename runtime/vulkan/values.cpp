// Cost, gradient and rows by one sweep over the instances, batch by batch where that is not slower.
#include "../plan/accumulation_rule.hpp"
#include "../plan/record/remembered_plans.hpp"
#include "vulkan_engine.hpp"

#include <algorithm>

namespace topograd::runtime::vulkan {
void VulkanEngine::evaluate(const Values& wanted) {
  if (!wanted.several()) return evaluate_in_turn(*this, wanted);
  const bool rows = !wanted.residuals.empty();
  const Pass pass = rows ? Pass::values : Pass::cost_gradient;
  used_sums_.insert(pass);
  std::vector<Landing>& landings = rows_.landings(Pass::residual);
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    record_values(list, pass, v_.x, v_.result, Scalar::cost);
    result_landing_->record(context_, list, v_.result);
    v_.ops->record_read(list);
    if (rows) rows_.record_landings(list, Pass::residual, landings, false);
  });
  if (wanted.cost != nullptr)
    *wanted.cost = v_.ops->read(recorder_.last())[codegen::slot(Scalar::cost)];
  problem_.read(*result_landing_, recorder_.last(), v_.result, wanted.gradient);
  if (rows) rows_.copy(Pass::residual, landings, recorder_.last(), wanted.residuals);
}

void VulkanEngine::record_values(CommandList& list, Pass pass, const Buffer& x, const Buffer& out,
                                 Scalar cost) {
  ValuePass values{.pass = pass, .sinks = {.costs = &value_sums()}};
  if (terms_.have_guards()) terms_.record_no_failures(list);
  for (std::size_t k = 0; k < terms_.size(); ++k) {
    if (!terms_.takes_part(k, pass)) continue;
    if (!one_pass(k, pass) || undecided(k, pass)) record_apart(list, k, values, x);
  }
  record_sum(list, Pass::gradient, terms_.operands(x), out, &values);
  const std::uint32_t sums = values.sinks.next;
  v_.ops->sum(list, *values.sinks.costs, 0, sums, sums, cost, 1);
  list.barrier();
}

/// What a term gives beside its gradient, by kernels of its own.
void VulkanEngine::record_apart(CommandList& list, std::size_t k, ValuePass& values,
                                const Buffer& x) {
  Operands with = terms_.operands(x);
  with.failures = terms_.failures();
  values.sinks.next += terms_[k]->record_cost(list, with, *values.sinks.costs, values.sinks.next);
  if (values.pass == Pass::values && terms_.takes_part(k, Pass::residual))
    terms_[k]->record_store(list, Pass::residual, terms_.operands(x),
                            rows_.result(Pass::residual, k));
}

ValueSinks* VulkanEngine::sinks_of(std::size_t k, ValuePass* values) {
  if (values == nullptr || !one_pass(k, values->pass)) return nullptr;
  const bool rows = values->pass == Pass::values && terms_.takes_part(k, Pass::residual);
  values->sinks.rows = rows ? &rows_.result(Pass::residual, k) : nullptr;
  return &values->sinks;
}

const Buffer& VulkanEngine::value_sums() {
  if (context_.collecting) return v_.result;  // nothing is written
  if (!*value_sums_) {
    *value_sums_ = make_partials(context_, terms_.most_costs());
  }
  return *value_sums_;
}

bool VulkanEngine::one_pass(std::size_t k, Pass pass) {
  const bool gathers = !by_atomics() && !stores_terms(k, Pass::gradient);
  // Failed guards are counted with the cost.
  if (terms_[k]->has_guards() || (gathers && terms_[k]->value_set(pass) == nullptr)) return false;
  if (context_.collecting && !by_atomics() && decision(k, Pass::gradient).open) return true;
  Decision& made = decision(k, pass);
  if (made.open && !context_.collecting) {
    made.open = false;
    measure_values(k, pass, made);
  }
  return made.choice.one_pass;
}

bool VulkanEngine::undecided(std::size_t k, Pass pass) const {
  const auto open = [&](Pass one) {
    const auto found = sums_->decisions.find({k, one});
    return found != sums_->decisions.end() && found->second.open;
  };
  return context_.collecting && (open(Pass::gradient) || open(pass));
}

/// One sweep wherever it can be, by rule.
void VulkanEngine::decide_values(std::size_t k, Pass pass, Decision& made) {
  PlanChoice& choice = made.choice;
  choice.one_pass = true;
  if (by_atomics() || options_.accumulation) return;
  const bool stores = stores_terms(k, Pass::gradient);
  choice.accumulation = stores ? Accumulation::gather_store : Accumulation::gather_recompute;
  if (const PlanChoice* given = find_choice(options_.plan.get(), choice)) {
    choice.one_pass = given->one_pass;
    choice.by = ChosenBy::given;
    return;
  }
  if (options_.deterministic || !large_enough_to_measure(choice.instances)) return;
  const ir::Hash128 source = stores ? source_hash(context_, store_request(terms_[k]->shape(), pass))
                                    : terms_[k]->value_set(pass)->source_hash(pass);
  const std::uint64_t words[] = {size_class(choice.instances), source.high, source.low};
  made.key = hash_bytes(std::as_bytes(std::span(words)), hash_text(kOnePassPlans));
  const auto remembered = recall_choice(context_.device->disk_cache(), kOnePassPlans, made.key);
  made.open = !remembered;
  if (remembered) take_values(choice, TimesOfTwo(*remembered), ChosenBy::remembered);
}

void VulkanEngine::take_values(PlanChoice& choice, const TimesOfTwo& times, ChosenBy by) {
  choice.by = by;
  choice.one_pass = times.first_us <= times.second_us;
  choice.candidates = {
      {.accumulation = choice.accumulation, .measured_us = times.first_us, .one_pass = true},
      {.accumulation = choice.accumulation, .measured_us = times.second_us, .one_pass = false}};
}

void VulkanEngine::measure_values(std::size_t k, Pass pass, Decision& made) {
  const bool stores = stores_terms(k, Pass::gradient);
  const auto timed = [&](bool one) {
    made.choice.one_pass = one;
    return time_choice([&](CommandList& list) {
      ValuePass values{.pass = pass, .sinks = {.costs = &value_sums()}};
      if (!one) record_apart(list, k, values, v_.x);
      record_batch_sum(list, k, Pass::gradient, terms_.operands(v_.x), stores, &values);
    });
  };
  const double once = timed(true);
  const TimesOfTwo times(once, timed(false));
  made.choice.one_pass = true;
  if (!(times.first_us > 0) || !(times.second_us > 0)) return;  // a clock too coarse for it
  take_values(made.choice, times, ChosenBy::measured);
  remember_decision(kOnePassPlans, made);
}

}  // namespace topograd::runtime::vulkan
