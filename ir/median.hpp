// The middle of some numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace topograd {

/// The middle one of some numbers, of an even count the upper of both; 0 if there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace topograd
