// Masks: constant blocks in bulk get no derivatives and no sums, once kernels without them are
// there.
#include "../plan/held.hpp"
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

/// Entries that must be left out, at least, and as a share of all of them.
constexpr std::uint64_t kLeastLeftOut = 1u << 13;
constexpr std::uint64_t kShareLeftOut = 8;

}  // namespace

void VulkanEngine::find_mask() {
  mask_ = {};
  terms_.use_mask(false);
  drop_code();
  code_stage_ = CodeStage::wanted;
  if (std::ranges::none_of(problem_.model().constant, [](std::uint8_t c) { return c != 0; }))
    return;
  std::uint64_t entries = 0, left_out = 0;
  bool whole_position = false;
  for (auto& term : terms_) {
    if (!term) continue;
    Held held = find_held(term->batch(), term->shape().groups, problem_.model().arrays,
                          problem_.model().constant);
    entries += held.entries;
    left_out += held.left_out;
    whole_position = whole_position || !held.slots.empty();
    term->set_mask(std::move(held.slots), problem_.model().constant);
  }
  if (left_out < kLeastLeftOut || left_out * kShareLeftOut < entries) return;
  mask_.stage = MaskState::Stage::wanted;
  drop_code();  // one change of kernels is enough
  // Which of the two serves depends on the clock, and their steps may differ in the last bits.
  if (options_.deterministic || (options_.plan && !options_.plan->empty())) {
    mask_.stage = MaskState::Stage::serving;
    terms_.use_mask(true);
    clear_sums();
  }
}

/// No kernel of a mask writes what belongs to blocks that are left out.
void VulkanEngine::clear_sums() {
  recorder_.run_once("clear_sums", [&](CommandList& list) {
    for (const Buffer* sums : {&v_.gradient, &v_.result, &v_.product})
      list.fill(*sums, 0, problem_.model().scalars * context_.element_bytes(), 0);
  });
}

void VulkanEngine::follow_mask() {
  using Stage = MaskState::Stage;
  const bool used = sums_.is_used() || *step_begun_;
  if (mask_.stage == Stage::wanted && used) begin_mask();
  if (mask_.stage != Stage::compiling) return;
  const auto ready = [](const auto& job) { return job->ready(); };
  if (std::ranges::all_of(mask_.jobs, ready)) serve_mask();
}

/// Plans and begins to make the kernels of all that was asked for so far.
void VulkanEngine::begin_mask() {
  recorder_.finish_kernels();
  mask_.stage = MaskState::Stage::compiling;
  sums_.swap(mask_.sums);
  products_.swap(mask_.products);
  terms_.use_mask(true);
  if (*step_begun_) products_.choose();
  recorder_.collect([&](CommandList& list) {
    sums_.record_used(list);
    if (*step_begun_) record_step(list);
  });
  terms_.use_mask(false);
  sums_.swap(mask_.sums);
  products_.swap(mask_.products);
  mask_.jobs = std::exchange(context_.begun, {});
}

void VulkanEngine::serve_mask() {
  try {
    for (const auto& job : mask_.jobs) job->get();
  } catch (const Error&) {  // general kernels go on
    mask_ = {};
    return;
  }
  begun_.finish();
  mask_.jobs.clear();
  mask_.stage = MaskState::Stage::serving;
  sums_.swap(mask_.sums);
  products_.swap(mask_.products);
  mask_.sums = {};
  mask_.products = {};
  terms_.use_mask(true);
  for (auto& term : terms_) {
    if (term) term->let_general_go();
  }
  if (*step_begun_) products_.make_curvature();
  clear_sums();
  recorder_.kernels.changed();
}

}  // namespace topograd::runtime::vulkan
