// Medians of evaluations.
#include "evaluation_times.hpp"

#include <algorithm>

namespace topograd {

std::optional<double> EvaluationTimes::add(runtime::Pass pass, double us, double compiled_ms) {
  Kind& k = kinds_[pass];
  if (k.compiled_ms != compiled_ms) {
    k.compiled_ms = compiled_ms;
    k.us.clear();
    return std::nullopt;
  }
  k.us.push_back(us);
  if (k.us.size() < k.wanted) return std::nullopt;
  const auto middle = k.us.begin() + static_cast<std::ptrdiff_t>(k.us.size() / 2);
  std::nth_element(k.us.begin(), middle, k.us.end());
  const double median = *middle;
  k.us.clear();
  k.wanted = kMany;
  return median;
}

}  // namespace topograd
