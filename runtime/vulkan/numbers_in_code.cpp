// Numbers that all instances share, in the text of kernels: these serve from when they are there
// until a number changes, general ones before and after.
#include "vulkan_engine.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

bool may_be_code(double value, bool wide) {
  return wide ? std::isnormal(value) : std::isnormal(static_cast<float>(value));
}

/// Data become literals; nothing is folded.
void put_in(ir::Program& program, const SharedNumbers& numbers) {
  for (ir::Node& node : program.nodes) {
    if (node.op != ir::Op::Data || node.slot() >= numbers.size()) continue;
    if (const std::optional<double>& number = numbers[node.slot()])
      node = ir::make_literal(*number);
  }
}

}  // namespace

LoadedKernel& pick_kernel(Context& context, TermKernel& kernel, const SharedNumbers& numbers,
                          const std::function<codegen::KernelRequest()>& request) {
  if (context.code == Code::make && !kernel.coded && !numbers.empty()) {
    codegen::KernelRequest made = request();
    put_in(made.program, numbers);
    for (codegen::GatherRole& role : made.roles) {
      if (!role.rides) put_in(role.program, numbers);
    }
    kernel.coded = load_kernel(context, std::move(made));
  }
  if (context.code != Code::general && kernel.coded) return kernel.coded;
  if (!kernel.general) kernel.general = load_kernel(context, request());
  return kernel.general;
}

bool DeviceTerm::find_shared_numbers() {
  numbers_.clear();
  if (instances() < context_.numbers_in_code_from) return false;
  for (std::uint32_t k = 0; k < batch_->data_columns(); ++k) {
    std::optional<double> number = shared_number(*batch_, k);
    if (number && !may_be_code(*number, context_.wide())) number.reset();
    numbers_.push_back(number);
  }
  if (std::ranges::none_of(numbers_, [](const auto& n) { return n.has_value(); })) numbers_.clear();
  return !numbers_.empty();
}

codegen::ColumnLayout DeviceTerm::serving_layout() const {
  codegen::ColumnLayout layout = shape().layout;
  if (context_.code != Code::serve) return layout;
  for (std::size_t k = 0; k < numbers_.size(); ++k) {  // what is flexible counts for nothing
    if (numbers_[k]) layout.data[k].kind = codegen::DataSource::Kind::flexible;
  }
  return layout;
}

bool DeviceTerm::shares_numbers() const {
  for (std::uint32_t k = 0; k < numbers_.size(); ++k) {
    if (!numbers_[k]) continue;
    const std::optional<double> number = shared_number(*batch_, k);
    if (!number ||
        std::bit_cast<std::uint64_t>(*number) != std::bit_cast<std::uint64_t>(*numbers_[k]))
      return false;
  }
  return true;
}

/// Where no linearisation is in use, as follow_mask().
void VulkanEngine::follow_numbers() {
  const bool used = !evaluations_.empty() || !used_sums_.empty() || step_begun_;
  if (code_stage_ == CodeStage::wanted && used) begin_code();
  if (code_stage_ != CodeStage::compiling) return;
  if (std::ranges::all_of(code_jobs_, [](const auto& job) { return job->ready(); })) serve_code();
}

/// Begins to make the kernels of all that was asked for so far.
void VulkanEngine::begin_code() {
  finish_kernels();
  bool some = false;
  for (auto& term : terms_) some = (term && term->find_shared_numbers()) || some;
  code_stage_ = some ? CodeStage::compiling : CodeStage::none;
  if (!some) return;
  context_.code = Code::make;
  collect([&](CommandList& list) {
    if (evaluations_.contains("cost")) record_cost(list, x_, Scalar::cost);
    for (const Pass pass : {Pass::residual, Pass::jacobian, Pass::jvp}) {
      if (row_results_.contains(pass)) record_rows(list, pass, operands(x_, &direction_));
    }
    record_used_sums(list);
    if (step_begun_) record_step(list);
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
  finish_begun();
  code_jobs_.clear();
  code_stage_ = CodeStage::serving;
  context_.code = Code::serve;
  forget_sums();
}

void VulkanEngine::drop_code() {
  code_jobs_.clear();
  code_stage_ = CodeStage::none;
  context_.code = Code::general;
}

}  // namespace topograd::runtime::vulkan
