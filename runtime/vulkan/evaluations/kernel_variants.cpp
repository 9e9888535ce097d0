// Kernels without fixed blocks and with numbers in their code: when they are made and when they
// serve.
#include "kernel_variants.hpp"

#include "../../../ir/error.hpp"
#include "../../plan/plan.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

/// Entries that must be left out, at least, and as a share of all of them.
constexpr std::uint64_t kLeastLeftOut = 1u << 13;
constexpr std::uint64_t kShareLeftOut = 8;

}  // namespace

bool KernelVariants::Variant::has_all() const {
  return stage == Stage::compiling &&
         std::ranges::all_of(jobs, [](const auto& job) { return job->ready(); });
}

bool KernelVariants::Variant::take() {
  const auto made = std::exchange(jobs, {});
  stage = Stage::none;
  try {
    for (const auto& job : made) job->get();
  } catch (const Error&) {
    return false;
  }
  stage = Stage::serving;
  return true;
}

void KernelVariants::build() {
  without_fixed_ = {};
  made_ = {};
  terms_.use_mask(false);
  drop_numbers();
  if (!find_fixed()) {
    with_numbers_.stage = Variant::Stage::wanted;
    return;
  }
  without_fixed_.stage = Variant::Stage::wanted;
  // Which of the two serves depends on the clock, and their steps may differ in the last bits.
  const EngineOptions& options = context_.options;
  if (options.deterministic || (options.plan && !options.plan->empty())) {
    without_fixed_.stage = Variant::Stage::serving;
    terms_.use_mask(true);
    clear_sums();
  }
}

bool KernelVariants::find_fixed() {
  if (std::ranges::none_of(problem_.model().constant, [](std::uint8_t c) { return c != 0; }))
    return false;
  std::uint64_t entries = 0, left_out = 0;
  for (auto& term : terms_) {
    if (!term) continue;
    FixedSlots fixed = find_fixed_slots(term->batch(), term->shape().groups,
                                        problem_.model().arrays, problem_.model().constant);
    entries += fixed.entries;
    left_out += fixed.left_out;
    term->set_mask(std::move(fixed.slots), problem_.model().constant);
  }
  return left_out >= kLeastLeftOut && left_out * kShareLeftOut >= entries;
}

void KernelVariants::clear_sums() {
  recorder_.submit(recorder_.make_list("clear_sums", [&](CommandList& list) {
    for (const Buffer* sums : {&v_.gradient, &v_.result, &v_.product})
      list.fill(*sums, 0, problem_.model().scalars * context_.element_bytes(), 0);
  }));
}

bool KernelVariants::use_steps(Recorder::Record steps) {
  if (*steps_) return false;
  *steps_ = std::move(steps);
  return true;
}

void KernelVariants::record_steps(CommandList& list) const {
  if (*steps_) (*steps_)(list);
}

void KernelVariants::follow() {
  follow_fixed();
  const bool used = recorder_.has_evaluations() || sums_are_used();
  if (with_numbers_.stage == Variant::Stage::wanted && used) make_with_numbers();
  if (with_numbers_.has_all()) serve_with_numbers();
}

void KernelVariants::follow_fixed() {
  if (without_fixed_.stage == Variant::Stage::wanted && sums_are_used()) make_without_fixed();
  if (without_fixed_.has_all()) serve_without_fixed();
}

void KernelVariants::make_without_fixed() {
  without_fixed_.stage = Variant::Stage::compiling;
  swap(made_);
  terms_.use_mask(true);
  if (*steps_) products_.choose();
  without_fixed_.jobs = Recorder::declare([&](CommandList& list) {
    sums_.record_used(list);
    record_steps(list);
  });
  terms_.use_mask(false);
  swap(made_);
}

void KernelVariants::serve_without_fixed() {
  Made made = std::exchange(made_, {});
  if (!without_fixed_.take()) return;
  begun_.finish();
  swap(made);
  made = {};
  terms_.use_mask(true);
  for (auto& term : terms_) {
    if (term) term->let_general_go();
  }
  if (*steps_) products_.make_curvature();
  clear_sums();
  recorder_.kernels.changed();
}

void KernelVariants::make_with_numbers() {
  bool some = false;
  for (auto& term : terms_) some = (term && term->numbers().find(context_)) || some;
  with_numbers_.stage = some ? Variant::Stage::compiling : Variant::Stage::none;
  if (!some) return;
  context_.code = Code::make;
  with_numbers_.jobs = Recorder::declare([&](CommandList& list) {
    if (recorder_.has_evaluation("cost")) terms_.record_cost(list, v_.x, codegen::Scalar::cost);
    for (const Pass pass : {Pass::residual, Pass::jacobian, Pass::jvp}) {
      if (rows_.has_results(pass)) rows_.record(list, pass, terms_.operands(v_.x, &v_.direction));
    }
    sums_.record_used(list);
    record_steps(list);
  });
  context_.code = Code::general;
}

void KernelVariants::serve_with_numbers() {
  if (!with_numbers_.take()) return drop_numbers();
  begun_.finish();
  context_.code = Code::serve;
  recorder_.kernels.changed();
}

void KernelVariants::numbers_changed() {
  if (with_numbers_.stage == Variant::Stage::serving) {
    begun_.finish();
    recorder_.columns.changed();
  }
  drop_numbers();
}

void KernelVariants::drop_numbers() {
  with_numbers_ = {};
  context_.code = Code::general;
}

void KernelVariants::refresh_data() {
  products_.refresh_data();
  NormalProducts::refresh_data(made_.products);
}

}  // namespace topograd::runtime::vulkan
