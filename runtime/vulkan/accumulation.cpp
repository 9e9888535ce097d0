// Which batches store their terms before they are summed: rule, plan record, memory, measurement.
#include "../plan/accumulation_rule.hpp"
#include "../plan/record/remembered_plans.hpp"
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <string>

namespace topograd::runtime::vulkan {
namespace {

constexpr int kWarmUps = 2, kSamples = 5;

/// first: evaluated again, second: stored.
void take(PlanChoice& choice, const TimesOfTwo& times, ChosenBy by) {
  choice.by = by;
  choice.candidates[0].measured_us = times.first_us;
  choice.candidates[1].measured_us = times.second_us;
  choice.accumulation = times.second_us < times.first_us ? Accumulation::gather_store
                                                         : Accumulation::gather_recompute;
}

}  // namespace

const PlanChoice* find_choice(const PlanRecord* record, const PlanChoice& wanted) {
  if (record == nullptr || record->device.starts_with("interpreter,")) return nullptr;
  const auto same = [&](const PlanChoice& choice) {
    return choice.topology == wanted.topology && choice.pass == wanted.pass &&
           choice.name == wanted.name &&
           size_class(choice.instances) == size_class(wanted.instances);
  };
  const auto found = std::ranges::find_if(record->batches, same);
  return found == record->batches.end() ? nullptr : &*found;
}

Decision& VulkanEngine::decision(std::size_t k, Pass pass) {
  const auto [it, fresh] = sums_->decisions.try_emplace({k, pass});
  Decision& decision = it->second;
  if (!fresh) return decision;
  const DeviceTerm& term = *terms_[k];
  PlanChoice& choice = decision.choice;
  choice.topology = to_string(term.shape().topology->hash);
  choice.name = term.shape().name;
  choice.pass = name(pass);
  choice.instances = term.instances();
  const Accumulation rung = context_.rung.accumulation;
  const bool atomic = by_atomics();
  if (options_.accumulation || atomic || term.is_wide()) {
    const bool stored = term.is_wide() && (!atomic || pass == Pass::diagonal);
    choice.accumulation = stored ? Accumulation::gather_store : rung;
    if (!stored) choice.by = options_.accumulation ? ChosenBy::forced : ChosenBy::given;
    if (has_values(pass)) decide_values(k, pass, decision);
    return decision;
  }
  if (has_values(pass)) {
    decide_values(k, pass, decision);
    return decision;
  }
  const AccumulationEstimate estimate =
      estimate_accumulation(term.shape(), pass, context_.options.precision);
  choice.candidates = {{Accumulation::gather_recompute, estimate.recompute},
                       {Accumulation::gather_store, estimate.store}};
  choice.accumulation = choose_accumulation(estimate);
  if (const PlanChoice* given = find_choice(options_.plan.get(), choice)) {
    choice.accumulation = given->accumulation;
    choice.by = ChosenBy::given;
  } else if (!options_.deterministic && term.terms_fit() &&
             worth_measuring(estimate, term.instances())) {
    decision.key = tuning_key(k, pass);
    const auto remembered =
        recall_choice(context_.device->disk_cache(), kAccumulationPlans, decision.key);
    decision.open = !remembered;
    if (remembered) take(choice, TimesOfTwo(*remembered), ChosenBy::remembered);
  }
  return decision;
}

/// Of the kernels' code and the size class; the disk cache knows the device.
ir::Hash128 VulkanEngine::tuning_key(std::size_t k, Pass pass) {
  std::vector<std::uint64_t> words = {size_class(terms_[k]->instances())};
  for (auto& set : terms_[k]->gather_sets()) {
    const ir::Hash128 hash = set->source_hash(pass);
    words.insert(words.end(), {hash.high, hash.low});
  }
  return hash_bytes(std::as_bytes(std::span(words)), hash_text(kAccumulationPlans));
}

bool VulkanEngine::stores_terms(std::size_t k, Pass pass) {
  if (!terms_[k]->terms_fit()) return false;
  Decision& made = decision(k, pass);
  if (made.open && !context_.collecting) {
    made.open = false;
    measure(k, pass, made);
  }
  return made.choice.accumulation == Accumulation::gather_store;
}

void VulkanEngine::measure(std::size_t k, Pass pass, Decision& made) {
  const auto timed = [&](bool store) {
    return time_choice([&](CommandList& list) {
      record_batch_sum(list, k, pass, terms_.operands(v_.x, &v_.direction), store);
    });
  };
  const bool there = static_cast<bool>(sums_->stored[k]);
  const double recompute = timed(false);
  const TimesOfTwo times(recompute, timed(true));
  if (!(times.first_us > 0) || !(times.second_us > 0)) return;  // a clock too coarse for it
  take(made.choice, times, ChosenBy::measured);
  if (!there && made.choice.accumulation == Accumulation::gather_recompute)
    sums_->stored[k] = Buffer();
  remember_decision(kAccumulationPlans, made);
}

void VulkanEngine::remember_decision(std::string_view kind, const Decision& made) {
  PlanRecord plan{.device = device(),
                  .precision = std::string(codegen::name(options_.precision)),
                  .workgroup_size = context_.workgroup_size,
                  .product = {},
                  .batches = {made.choice}};
  remember(context_.device->disk_cache(), kind, made.key, plan);
}

double VulkanEngine::time_choice(const std::function<void(CommandList&)>& record) {
  const auto stamped = [&](CommandList& list) {
    list.write_timestamp("begin");
    record(list);
    list.write_timestamp("end");
  };
  recorder_.collect(stamped);
  recorder_.finish_kernels();
  return recorder_.time_list(recorder_.make_list("choice", stamped), kWarmUps, kSamples).device_us;
}

/// Sums of one batch into scratch.
void VulkanEngine::record_batch_sum(CommandList& list, std::size_t k, Pass pass,
                                    const Operands& with, bool store, ValuePass* values) {
  if (store) {
    record_terms(list, k, pass, with, values);
    list.barrier();
  }
  for (auto& set : terms_[k]->gather_sets()) {
    const SumTarget target{.out = &v_.product, .first = set->x_first(), .overwrite = true};
    if (store) {
      set->record_stored(list, pass, context_.collecting ? v_.result : sums_->stored[k],
                         terms_[k]->store_stride(), with, target);
    } else {
      record_set(list, k, *set, pass, with, target, values);
    }
    list.barrier();
  }
}

void VulkanEngine::record_terms(CommandList& list, std::size_t k, Pass pass, const Operands& with,
                                ValuePass* values) {
  const bool make = !sums_->stored[k] && !context_.collecting;
  if (make) sums_->stored[k] = make_numbers(context_, terms_[k]->stored_size(pass), "terms");
  ValueSinks* const sinks = sinks_of(k, values);
  terms_[k]->record_store(list, sinks ? values->pass : pass, with,
                          context_.collecting ? v_.result : sums_->stored[k], sinks);
}

PlanRecord VulkanEngine::plan() const {
  PlanRecord record{.device = device(),
                    .precision = std::string(codegen::name(options_.precision)),
                    .workgroup_size = context_.workgroup_size,
                    .product = sums_->matrix           ? "assembled"
                               : use_stored_jacobian() ? "stored_jacobian"
                                                       : "recompute"};
  for (const auto& [key, made] : sums_->decisions) {
    PlanChoice choice = made.choice;
    const bool store = choice.accumulation == Accumulation::gather_store;
    if (store || choice.accumulation == Accumulation::gather_recompute) {
      const bool values = has_values(key.second) && choice.one_pass;
      const Pass pass = has_values(key.second) && !values ? Pass::gradient : key.second;
      const DeviceTerm::Work work = terms_[key.first]->work(pass, store);
      choice.entries = work.entries;
      choice.operations = work.operations;
      choice.bytes = work.bytes;
    }
    record.batches.push_back(std::move(choice));
  }
  for (const auto& job : context_.loaded) {
    if (!job->ready()) continue;
    try {
      const MadeKernel& made = job->get();
      KernelFigures& kernel = record.kernels.emplace_back(made.kernel.figures());
      kernel.glsl_ms = made.glsl_ms;
      kernel.spirv_ms = made.spirv_ms;
      kernel.pipeline_ms = made.pipeline_ms;
      kernel.origin = made.origin;
    } catch (const Error&) {
      continue;  // whoever needs that kernel is told
    }
  }
  return record;
}

}  // namespace topograd::runtime::vulkan
