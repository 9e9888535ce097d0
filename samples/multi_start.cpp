// Calibrates an oscillating sensor from many starts at once, and takes the best of all minima.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace tg = topograd;

int main() {
  // Amplitude, frequency (rad/s), phase, decay (1/s) and offset. The cost has a minimum for every
  // few multiples of the frequency, so a single start is not enough.
  const double truth[5] = {2, 17.3, 0.7, 0.15, 0.4};
  constexpr std::size_t kStarts = 400, kSamples = 120;
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  std::vector<double> t, y;
  for (std::size_t i = 0; i < kSamples; ++i) {
    t.push_back(0.025 * static_cast<double>(i));
    y.push_back(truth[0] * std::exp(-truth[3] * t[i]) * std::sin(truth[1] * t[i] + truth[2]) +
                truth[4] + noise(random));
  }

  const std::vector<double> lower = {0, 1, -M_PI, 0, -10}, upper = {10, 60, M_PI, 5, 10};
  std::vector<double> x;
  for (std::size_t k = 0; k < kStarts; ++k)
    for (std::size_t i = 0; i < 5; ++i)
      x.push_back(std::uniform_real_distribution<double>(lower[i], upper[i])(random));
  const tg::Summary summary = tg::solve_many(
      kStarts,
      [&](const tg::One& one) {
        std::vector<tg::Value> rows;
        for (std::size_t i = 0; i < kSamples; ++i)
          rows.push_back(one.x(0) * exp(-one.x(3) * t[i]) * sin(one.x(1) * t[i] + one.x(2)) +
                         one.x(4) - y[i]);
        return rows;
      },
      x, {.lower = lower, .upper = upper});

  const std::vector<double>& cost = summary.components.final_cost;
  const auto best = static_cast<std::size_t>(std::ranges::min_element(cost) - cost.begin());
  const auto found = static_cast<std::size_t>(
      std::ranges::count_if(cost, [&](double c) { return c < 1.01 * cost[best]; }));
  std::cout << "best of " << kStarts << " starts: cost " << cost[best] << ", found by " << found
            << "; frequency " << x[5 * best + 1] << " rad/s, phase " << x[5 * best + 2] << "\n";
  const bool near_truth =
      std::abs(x[5 * best + 1] - truth[1]) < 0.03 && std::abs(x[5 * best + 2] - truth[2]) < 0.05;
  const bool ended =
      summary.components.termination[best] == tg::Termination::CONVERGENCE && found < kStarts;
  return near_truth && ended ? 0 : 1;
}
