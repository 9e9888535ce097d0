// Expectation that work grows linearly with its size.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace topograd::test {

/// Runs `work(n)` at two sizes, ten times apart, and expects at most three times ten times the
/// processor time: cache misses of larger data cost something, a quadratic step or a cache miss at
/// every node far more. It measures processor time, so that a busy machine matters little, and
/// keeps the pages of the system: on some virtual machines fresh ones cost more than the work on
/// them.
template <class Work>
void expect_linear_time(Work work) {
#ifdef NDEBUG
  constexpr int kSmall = 100'000;
#else
  constexpr int kSmall = 5'000;
#endif
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
#endif
  const auto best_of = [&](int tries, int size) {
    double best = 0;
    for (int k = 0; k < tries; ++k) {
      const std::clock_t start = std::clock();
      work(size);
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      best = k == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  };
  const double small = best_of(3, kSmall), bound = 30 * small + 0.05;
  double large = best_of(2, 10 * kSmall);
  if (large >= bound) large = best_of(2, 10 * kSmall);
  EXPECT_LT(large, bound) << large << " s and " << small << " s";
}

}  // namespace topograd::test
