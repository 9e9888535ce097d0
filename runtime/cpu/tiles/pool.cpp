// Fixed-order summation.
#include "pool.hpp"

namespace topograd::runtime::cpu {

double pairwise_sum(std::span<const double> values) {
  std::vector<double> sums(values.begin(), values.end());
  if (sums.empty()) return 0;
  for (std::size_t n = sums.size(); n > 1; n = (n + 1) / 2) {
    for (std::size_t k = 0; k < n / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
    if (n % 2 == 1) sums[n / 2] = sums[n - 1];
  }
  return sums[0];
}

}  // namespace topograd::runtime::cpu
