// Numbers that all instances share, in the text of kernels: these serve from when they are there
// until a number changes, general ones before and after.
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <utility>

namespace topograd::runtime::vulkan {

/// Where no linearisation is in use, as follow_mask().
void VulkanEngine::follow_numbers() {
  const bool used = recorder_.has_evaluations() || sums_.is_used() || *step_begun_;
  if (code_stage_ == CodeStage::wanted && used) begin_code();
  if (code_stage_ != CodeStage::compiling) return;
  if (std::ranges::all_of(code_jobs_, [](const auto& job) { return job->ready(); })) serve_code();
}

/// Begins to make the kernels of all that was asked for so far.
void VulkanEngine::begin_code() {
  recorder_.finish_kernels();
  bool some = false;
  for (auto& term : terms_) some = (term && term->find_shared_numbers()) || some;
  code_stage_ = some ? CodeStage::compiling : CodeStage::none;
  if (!some) return;
  context_.code = Code::make;
  recorder_.collect([&](CommandList& list) {
    if (recorder_.has_evaluation("cost")) terms_.record_cost(list, v_.x, Scalar::cost);
    for (const Pass pass : {Pass::residual, Pass::jacobian, Pass::jvp}) {
      if (rows_.has_results(pass)) rows_.record(list, pass, terms_.operands(v_.x, &v_.direction));
    }
    sums_.record_used(list);
    if (*step_begun_) record_step(list);
  });
  context_.code = Code::general;
  code_jobs_ = std::exchange(context_.begun, {});
}

void VulkanEngine::serve_code() {
  try {
    for (const auto& job : code_jobs_) job->get();
  } catch (const Error&) {  // general kernels go on
    return drop_code();
  }
  begun_.finish();
  code_jobs_.clear();
  code_stage_ = CodeStage::serving;
  context_.code = Code::serve;
  recorder_.kernels.changed();
}

void VulkanEngine::drop_code() {
  code_jobs_.clear();
  code_stage_ = CodeStage::none;
  context_.code = Code::general;
}

}  // namespace topograd::runtime::vulkan
