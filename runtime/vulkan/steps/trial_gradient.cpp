// Cost and gradient at a trial point.
#include "trial_gradient.hpp"

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;

}  // namespace

void record_trial_gradient(CommandList& list, std::uint64_t scalars, const StepVectors& v,
                           TermSums& sums) {
  sums.record_values(list, Pass::cost_gradient, v.trial, v.result, Scalar::trial_cost);
  const auto n = static_cast<std::uint32_t>(scalars);
  const std::uint32_t groups = v.ops->workgroups(n);
  v.ops->record(list, kernel::point_norms{{.gradient = v.result,
                                           .point = v.trial,
                                           .fixed_scalars = v.fixed,
                                           .partials = v.partials},
                                          {.count = n, .out_stride = groups}});
  list.barrier();
  v.ops->sum(list, v.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v.ops->sum(list, v.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  list.barrier();
  v.ops->record_read(list);
}

}  // namespace topograd::runtime::vulkan
