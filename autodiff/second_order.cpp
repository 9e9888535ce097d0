// Second derivatives: the gradient program, differentiated once more.
#include <topograd/autodiff/second_order.hpp>

#include <topograd/autodiff/sweep.hpp>
#include <topograd/ir/error.hpp>

#include <string>
#include <vector>

namespace topograd::autodiff {

ir::Program scalar_gradient(const ir::Program& E, Slots slots) {
  if (E.outputs.size() != 1) {
    throw Error(ErrorCode::Shape, "differentiate: expected a program with one output, got " +
                                      std::to_string(E.outputs.size()));
  }
  return jacobian(E, slots);
}

// One tangent through the gradient. Forward mode: it takes a zero derivative times an infinite
// tangent for zero, where an adjoint of the gradient's own infinities would meet zeros as NaN.
ir::Program hvp(const ir::Program& E, Slots slots) { return jvp(scalar_gradient(E, slots)); }

ir::Program hessian(const ir::Program& E, Slots slots) {
  Builder builder(scalar_gradient(E, slots));
  const ir::Id one = builder.graph().literal(1);
  const std::size_t n = slots.size();
  std::vector<ir::Id> upper(n * (n + 1) / 2);
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<ir::Id> tangents(builder.leaves().parameters, ir::kNone);
    tangents[slots[j]] = one;
    const std::vector<ir::Id> column = forward(builder, tangents);
    for (std::size_t i = 0; i <= j; ++i) upper[i * n - i * (i + 1) / 2 + j] = column[i];
  }
  return builder.extract(upper, builder.leaves());
}

}  // namespace topograd::autodiff
