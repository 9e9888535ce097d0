// What to do about a solve that ran into its limit of steps.
#pragma once

#include <string_view>

namespace topograd {

struct Summary;

enum class Advice {
  none,                ///< it ended otherwise
  more_steps,          ///< the cost still falls: a larger max_iterations
  second_derivatives,  ///< least squares whose model of the cost is poor: newton or lbfgs
  looser_tolerance,    ///< the cost hardly falls: a larger function_tolerance, or newton
  good_enough,         ///< the same where newton is taken already, or cannot be
  other_method         ///< steps along gradients: newton, or a larger max_iterations
};

/// From the history: how far the cost fell in the last steps, how many were refused, and how well
/// the model foretold them.
Advice advise(const Summary& summary);
/// One sentence for the report; empty for none.
std::string_view text(Advice advice);

}  // namespace topograd
