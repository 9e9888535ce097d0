// Advice after a solve that reached its limit of steps.
#pragma once

#include <string_view>

namespace topograd {

struct Summary;

enum class Advice {
  none,                ///< not for this end of the solve
  more_steps,          ///< the cost still falls: a larger max_iterations
  second_derivatives,  ///< least squares whose model of the cost is poor: newton or lbfgs
  looser_tolerance,    ///< the cost hardly falls: a larger function_tolerance, or newton
  good_enough,         ///< like looser_tolerance, if newton is in use or impossible
  other_method         ///< steps along gradients: newton, or a larger max_iterations
};

/// Derives advice from the history: the decrease of the cost in the last steps, the number of
/// rejected ones, and the model's predictions.
Advice advise(const Summary& summary);
/// One sentence for the report; empty for none.
std::string_view text(Advice advice);

}  // namespace topograd
