// Kernels that an engine needs before it can serve without waiting for a compiler.
#pragma once

#include "../plan/pass.hpp"

#include <compare>

namespace topograd::runtime {

/// Kernels of one kind of evaluation, of damped steps, or of one kind of gradient steps.
struct Need {
  enum class Of { evaluation, damped_step, first_order_step, descent_step };
  Of of = Of::damped_step;
  Pass pass = Pass::residual;  ///< of an evaluation

  static Need evaluation(Pass pass) { return {Of::evaluation, pass}; }
  friend auto operator<=>(const Need&, const Need&) = default;
};

}  // namespace topograd::runtime
