// Second derivatives: derivatives of the gradient program.
#include "second_order.hpp"

#include "kinks.hpp"
#include "sweep.hpp"

#include <algorithm>
#include <vector>

namespace topograd::autodiff {

ir::Program scalar_gradient(const ir::Program& E, Slots slots) {
  expect_scalar(E);
  return jacobian(E, slots);
}

ir::Program scalar_gradient_and_value(const ir::Program& E, Slots slots) {
  expect_scalar(E);
  ir::Program both = residual_and_jacobian(E, slots);
  std::ranges::rotate(both.outputs, both.outputs.begin() + 1);
  return both;
}

// Applies forward mode to the gradient. It treats a zero derivative times an infinite tangent as
// zero; reverse mode would multiply infinite adjoints of the gradient by zero, which is NaN.
ir::Program hvp(const ir::Program& E, Slots slots) {
  const GradientWithLimits of = gradient_with_limits(E, slots);
  return with_limits(jvp(of.gradient), of.limits);
}

ir::Program hessian(const ir::Program& E, Slots slots) {
  const GradientWithLimits of = gradient_with_limits(E, slots);
  Builder builder(of.gradient);
  const ir::Id one = builder.graph().literal(1);
  const std::size_t n = slots.size();
  std::vector<ir::Id> upper(n * (n + 1) / 2);
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<ir::Id> tangents(builder.leaves().parameters, ir::kNone);
    tangents[slots[j]] = one;
    const std::vector<ir::Id> column = forward(builder, tangents);
    for (std::size_t i = 0; i <= j; ++i) upper[i * n - i * (i + 1) / 2 + j] = column[i];
  }
  return with_limits(builder.extract(upper, builder.leaves()), of.limits);
}

}  // namespace topograd::autodiff
