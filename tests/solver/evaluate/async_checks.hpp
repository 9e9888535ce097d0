// Checks of asynchronous evaluations for every backend.
#pragma once

#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "../../../tools/problems/springs.hpp"

namespace topograd::test {

/// Later results equal those of the plain calls, in any order of requests.
inline void check_async_results(const SolverOptions& options) {
  const auto springs = problems::springs(20);
  Evaluator later(springs->problem, options), now(springs->problem, options);
  std::vector<std::vector<double>> points(5);
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k].resize(springs->problem.parameter_count());
    springs->problem.read_x(points[k]);
    points[k][7] += 0.05 * static_cast<double>(k);
  }
  const std::vector<double> p(points[0].size(), 0.5);
  std::vector<Async<double>> costs;
  std::vector<Async<Eigen::VectorXd>> gradients, residuals, products;
  for (const std::vector<double>& x : points) {
    costs.push_back(later.cost_async(x));
    gradients.push_back(later.gradient_async(x));
    residuals.push_back(later.residuals_async(x));
    products.push_back(later.jtjp_async(x, p));
  }
  EXPECT_EQ(later.cost(points[3]), now.cost(points[3]));  // in between
  for (std::size_t k = points.size(); k-- > 0;) {
    EXPECT_EQ(gradients[k].get(), now.gradient(points[k])) << k;
    EXPECT_EQ(costs[k].get(), now.cost(points[k])) << k;
    EXPECT_EQ(residuals[k].get(), now.residuals(points[k])) << k;
    EXPECT_EQ(products[k].get(), now.jtjp(points[k], p)) << k;
  }
  EXPECT_EQ(later.report().asynchronous.evaluations, 20u);
  EXPECT_THROW(later.gradient_async(std::vector<double>(3)), Error);
  Async<double> outlives = [&] {
    Evaluator gone(springs->problem, options);
    (void)gone.gradient_async(points[1]);  // never read
    return gone.cost_async(points[1]);
  }();
  EXPECT_EQ(outlives.get(), now.cost(points[1]));
}

struct Overlap {
  double share = 0;     ///< of the time in flight in which the caller was free
  double returned = 0;  ///< time until the calls return, relative to plain calls
};

/// Batches whose preparation on the host takes as long as their evaluation.
inline Overlap measure_overlap(const SolverOptions& options, int width) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto springs = problems::springs(width);
  Evaluator e(springs->problem, options);
  std::vector<double> x(springs->problem.parameter_count());
  springs->problem.read_x(x);
  e.gradient(x);
  for (int k = 0; k < 2; ++k) e.gradient_async(x).get();  // buffers and lists of both turns
  const AsyncFigures before = e.report().asynchronous;
  constexpr int kBatches = 8;
  const Clock::time_point begin = Clock::now();
  for (int k = 0; k < kBatches; ++k) e.gradient(x);
  const Clock::duration all = Clock::now() - begin;
  double returned = 0, in_flight = 0;
  for (int k = 0; k < kBatches; ++k) {
    const Clock::time_point asked = Clock::now();
    Async<Eigen::VectorXd> batch = e.gradient_async(x);
    const Clock::time_point under_way = Clock::now();
    std::this_thread::sleep_for(all / kBatches);  // preparation of the next batch on the host
    in_flight += seconds(Clock::now() - under_way);
    batch.get();
    returned += seconds(under_way - asked);
  }
  AsyncFigures figures = e.report().asynchronous;
  figures.in_flight_seconds -= before.in_flight_seconds;
  figures.waited_seconds -= before.waited_seconds;
  EXPECT_GE(figures.in_flight_seconds, 0.99 * in_flight);
  return {figures.overlapped_share(), returned / seconds(all)};
}

/// While batch n runs the caller prepares batch n + 1. Retries on a busy machine, with larger
/// batches for a fast device.
inline void check_overlap(const SolverOptions& options, int width) {
  Overlap best = measure_overlap(options, width);
  for (int k = 0; k < 9 && !(best.share > 0.25 && best.returned < 0.8); ++k)
    best = measure_overlap(options, width << (k / 3));
  EXPECT_GT(best.share, 0.25);
  EXPECT_LT(best.returned, 0.8) << "the calls waited for their evaluations";
}

}  // namespace topograd::test
