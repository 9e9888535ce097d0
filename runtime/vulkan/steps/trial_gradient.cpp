// Cost and gradient at a trial point.
#include "trial_gradient.hpp"

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;
using codegen::Scalar;
using codegen::VectorOp;

}  // namespace

void record_trial_gradient(CommandList& list, std::uint64_t scalars, const StepVectors& v,
                           TermSums& sums) {
  sums.record_values(list, Pass::cost_gradient, v.trial, v.result, Scalar::trial_cost);
  BindingTable table = v.table();
  table.set(BufferRole::fixed, v.fixed);
  table.set(BufferRole::first_operand, v.trial);
  table.set(BufferRole::gradient, v.result);
  const auto n = static_cast<std::uint32_t>(scalars);
  const std::uint32_t groups = v.ops->workgroups(n);
  v.ops->record(
      list, {.op = VectorOp::point_norms, .constants = {.count = n, .out_stride = groups}}, table);
  list.barrier();
  v.ops->sum(list, v.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v.ops->sum(list, v.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  list.barrier();
  v.ops->record_read(list);
}

}  // namespace topograd::runtime::vulkan
