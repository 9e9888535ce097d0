// Rules, memory and measurements of sums.
#include "sum_choices.hpp"

#include <algorithm>
#include <string>

#include "../../../ir/error.hpp"
#include "../../device/kernels/kernel_cache.hpp"
#include "../../plan/accumulation_rule.hpp"
#include "../../plan/record/remembered_plans.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Times of the two ways, as measured.
struct TimesOfTwo {
  double first_us = 0, second_us = 0;

  TimesOfTwo(double first, double second) : first_us(first), second_us(second) {}
  /// Times of a choice that was measured before.
  explicit TimesOfTwo(const PlanChoice& choice)
      : TimesOfTwo(choice.candidates.at(0).measured_us, choice.candidates.at(1).measured_us) {}
};

/// first: evaluated again, second: stored.
void take(PlanChoice& choice, const TimesOfTwo& times, ChosenBy by) {
  choice.by = by;
  choice.candidates[0].measured_us = times.first_us;
  choice.candidates[1].measured_us = times.second_us;
  choice.accumulation = times.second_us < times.first_us ? Accumulation::gather_store
                                                         : Accumulation::gather_recompute;
}

void take_values(PlanChoice& choice, const TimesOfTwo& times, ChosenBy by) {
  choice.by = by;
  choice.one_pass = times.first_us <= times.second_us;
  choice.candidates = {
      {.accumulation = choice.accumulation, .measured_us = times.first_us, .one_pass = true},
      {.accumulation = choice.accumulation, .measured_us = times.second_us, .one_pass = false}};
}

/// The choice that a record has for the same topology, pass and size; null if there is none, or if
/// it is the interpreter's, which chooses nothing.
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

}  // namespace

bool SumChoices::by_atomics() const {
  return codegen::row_of(context_.accumulation.accumulation).atomic;
}

bool SumChoices::emulates() const { return context_.device->info().features.emulated_float64; }

SumChoices::Decision& SumChoices::decision(std::size_t k, Pass pass) {
  const auto [it, fresh] = decisions_->try_emplace({k, pass});
  Decision& decision = it->second;
  if (!fresh) return decision;
  const DeviceTerm& term = *terms_[k];
  PlanChoice& choice = decision.choice;
  choice.topology = to_string(term.shape().topology->hash);
  choice.name = term.shape().name;
  choice.pass = name(pass);
  choice.instances = term.instances();
  const Accumulation strategy = context_.accumulation.accumulation;
  const bool atomic = by_atomics();
  const bool wide = is_wide(term.shape().groups);
  if (context_.options.accumulation || atomic || wide) {
    const Accumulation shorter =
        has_values(pass) ? strategy : short_accumulation(term.shape(), pass, strategy);
    const bool stored = (wide && (!atomic || pass == Pass::diagonal)) || shorter != strategy;
    choice.accumulation = stored ? Accumulation::gather_store : strategy;
    if (!stored) choice.by = context_.options.accumulation ? ChosenBy::forced : ChosenBy::given;
    if (has_values(pass)) decide_values(k, pass, decision);
    return decision;
  }
  if (has_values(pass)) {
    decide_values(k, pass, decision);
    return decision;
  }
  // The rule alone takes no notice of emulation, whose bits are those of native float64.
  const bool emulated = emulates() && !context_.options.deterministic;
  const AccumulationEstimate estimate =
      estimate_accumulation(term.shape(), pass, context_.options.precision,
                            emulated ? codegen::Float64::emulated : codegen::Float64::native);
  choice.candidates = {{Accumulation::gather_recompute, estimate.recompute},
                       {Accumulation::gather_store, estimate.store}};
  choice.accumulation = choose_accumulation(estimate);
  if (const PlanChoice* given = find_choice(context_.options.plan.get(), choice)) {
    choice.accumulation = given->accumulation;
    choice.by = ChosenBy::given;
  } else if (!context_.options.deterministic && term.terms_fit() &&
             worth_measuring(estimate, term.instances())) {
    decision.key = tuning_key(k, pass);
    const auto remembered =
        recall_choice(context_.device->disk_cache(), kAccumulationPlans, decision.key);
    decision.open = !remembered;
    if (remembered) take(choice, TimesOfTwo(*remembered), ChosenBy::remembered);
  }
  return decision;
}

/// Key of the kernels' code and the size class; the disk cache knows the device.
ir::Hash128 SumChoices::tuning_key(std::size_t k, Pass pass) {
  std::vector<std::uint64_t> words = {size_class(terms_[k]->instances()), emulates()};
  for (auto& set : terms_[k]->gather_sets()) {
    const ir::Hash128 hash = set->source_hash(pass);
    words.insert(words.end(), {hash.high, hash.low});
  }
  return hash_bytes(std::as_bytes(std::span(words)), hash_text(kAccumulationPlans));
}

bool SumChoices::stores_terms(std::size_t k, Pass pass) {
  return terms_[k]->terms_fit() &&
         decision(k, pass).choice.accumulation == Accumulation::gather_store;
}

bool SumChoices::settle(std::size_t k, Pass pass, const Time& time) {
  Decision& made = decision(k, pass);
  if (!std::exchange(made.open, false)) return false;
  const bool values = has_values(pass);
  const double first = time(false);
  if (values) made.choice.one_pass = false;
  const TimesOfTwo times(first, time(true));
  if (values) made.choice.one_pass = true;
  if (!(times.first_us > 0) || !(times.second_us > 0)) return true;  // a clock too coarse for it
  (values ? take_values : take)(made.choice, times, ChosenBy::measured);
  remember_decision(values ? kOnePassPlans : kAccumulationPlans, made);
  return true;
}

void SumChoices::remember_decision(std::string_view kind, const Decision& made) {
  PlanRecord plan{.device = context_.device->info().name,
                  .precision = std::string(codegen::name(context_.options.precision)),
                  .workgroup_size = context_.workgroup_size,
                  .product = {},
                  .batches = {made.choice}};
  remember(context_.device->disk_cache(), kind, made.key, plan);
}

bool SumChoices::one_pass(std::size_t k, Pass pass) {
  const bool gathers = !by_atomics() && !stores_terms(k, Pass::gradient);
  // Failed guards are counted with the cost.
  if (terms_[k]->has_guards() || (gathers && terms_[k]->value_set(pass) == nullptr)) return false;
  if (!by_atomics() && decision(k, Pass::gradient).open) return true;
  return decision(k, pass).choice.one_pass;
}

bool SumChoices::undecided(std::size_t k, Pass pass) const {
  const auto open = [&](Pass one) {
    const auto found = decisions_->find({k, one});
    return found != decisions_->end() && found->second.open;
  };
  return open(Pass::gradient) || open(pass);
}

/// One sweep wherever it can be, by rule.
void SumChoices::decide_values(std::size_t k, Pass pass, Decision& made) {
  PlanChoice& choice = made.choice;
  choice.one_pass = true;
  if (by_atomics() || context_.options.accumulation) return;
  const bool stores = stores_terms(k, Pass::gradient);
  choice.accumulation = stores ? Accumulation::gather_store : Accumulation::gather_recompute;
  if (const PlanChoice* given = find_choice(context_.options.plan.get(), choice)) {
    choice.one_pass = given->one_pass;
    choice.by = ChosenBy::given;
    return;
  }
  if (context_.options.deterministic || !large_enough_to_measure(choice.instances)) return;
  const ir::Hash128 source = stores ? source_hash(context_, store_request(terms_[k]->shape(), pass))
                                    : terms_[k]->value_set(pass)->source_hash(pass);
  const std::uint64_t words[] = {size_class(choice.instances), emulates(), source.high, source.low};
  made.key = hash_bytes(std::as_bytes(std::span(words)), hash_text(kOnePassPlans));
  const auto remembered = recall_choice(context_.device->disk_cache(), kOnePassPlans, made.key);
  made.open = !remembered;
  if (remembered) take_values(choice, TimesOfTwo(*remembered), ChosenBy::remembered);
}

void SumChoices::describe(PlanRecord& record) const {
  for (const auto& [key, made] : *decisions_) {
    PlanChoice choice = made.choice;
    const bool store = choice.accumulation == Accumulation::gather_store;
    if (store || choice.accumulation == Accumulation::gather_recompute) {
      const bool values = has_values(key.second) && choice.one_pass;
      const Pass pass = has_values(key.second) && !values ? Pass::gradient : key.second;
      const SumWork work = sum_work(context_, *terms_[key.first], pass, store);
      choice.entries = work.entries;
      choice.operations = work.operations;
      choice.bytes = work.bytes;
    }
    record.batches.push_back(std::move(choice));
  }
}

std::string SumChoices::accumulation() const {
  std::string text(codegen::name(context_.accumulation.accumulation));
  if (!context_.accumulation.why.empty()) text += " (" + context_.accumulation.why + ")";
  const auto stores = [&](const auto& made) {
    return !context_.options.accumulation &&
           made.second.choice.accumulation == Accumulation::gather_store;
  };
  const auto count = std::ranges::count_if(*decisions_, stores);
  if (count > 0) {
    text += count == static_cast<std::ptrdiff_t>(decisions_->size())
                ? ": gather_store in all of its batches"
                : ", gather_store for some batches";
  }
  return text;
}

namespace {

/// Operations that a library function counts for.
constexpr std::uint64_t kFunctionCost = 20;

}  // namespace

std::uint64_t pass_cost(const TermShape& shape, Pass pass) {
  const ir::Program program = shape_program(shape, pass, slots_of(shape, pass));
  std::uint64_t cost = 0;
  for (const ir::Node& node : program.nodes) {
    if (ir::is_leaf(node.op)) continue;
    cost += ir::info(node.op).function.empty() ? 1 : kFunctionCost;
  }
  return cost;
}

SumWork sum_work(const Context& context, DeviceTerm& term, Pass pass, bool stored_terms) {
  const std::uint32_t number = context.element_bytes();
  const TermShape& shape = term.shape();
  const codegen::ColumnLayout layout =
      context.code == Code::serve ? term.numbers().left_out_of(shape.layout) : shape.layout;
  SumWork work;
  if (stored_terms) {
    const codegen::KernelRequest request = store_request(shape, pass);
    work.operations = term.instances() * ir::operation_count(request.program);
    work.bytes = term.instances() * stored_bytes(layout, number) + number * term.stored_size(pass);
  }
  for (const auto& set : term.gather_sets()) {
    for (std::size_t r = 0; r < set->block_slots(); ++r) {
      const std::uint32_t group = set->block_slot_groups()[r];
      const std::uint64_t entries = set->block_slot_entries()[r];
      work.entries += entries;
      if (stored_terms) {
        work.bytes += entries * (4 + number * shape.groups[group].slots.size());
        continue;
      }
      const bool gives = term.value_set(pass) == set.get() && set->lead() == r;
      const codegen::GatherSlot block_slot = gather_slot(
          shape, has_values(pass) && !gives ? Pass::gradient : pass, group, set->block_width());
      work.operations += entries * ir::operation_count(block_slot.program);
      const EntryColumns columns =
          entry_columns(layout, shape.groups[group], shape.flexible.of_group(group));
      const codegen::ColumnLayout numbers{.data = columns.layout.data,
                                          .data_columns = columns.layout.data_columns};
      work.bytes += entries * (4 * columns.fixed + stored_bytes(numbers, number));
    }
  }
  return work;
}

}  // namespace topograd::runtime::vulkan
