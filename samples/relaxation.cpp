// Maps of T1 and T2: each pixel of a phantom is fitted to inversion recovery and spin echoes.
#include <topograd/topograd.hpp>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace tg = topograd;

int main() {
  constexpr int kSide = 64, kPixels = kSide * kSide;
  const std::vector<double> inversion = {50, 150, 300, 600, 1000, 1600, 2500, 4000};  // ms
  const std::vector<double> echo = {10, 20, 35, 55, 80, 120, 170, 240};               // ms
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 2);
  std::vector<double> truth, recovered, echoes, p;
  for (int k = 0; k < kPixels; ++k) {
    // Three tissues in rings, whose T1 and T2 change along the columns.
    const double x = 2.0 * (k % kSide) / kSide - 1, y = 2.0 * (k / kSide) / kSide - 1;
    const double r = std::hypot(x, y), shade = 1 + 0.1 * x;
    const double t1 = shade * (r < 0.4 ? 800 : r < 0.8 ? 1300 : 2600);
    const double t2 = shade * (r < 0.4 ? 70 : r < 0.8 ? 100 : 180);
    truth.insert(truth.end(), {1000, t1, t2});
    for (const double t : inversion)
      recovered.push_back(1000 * (1 - 2 * std::exp(-t / t1)) + noise(random));
    for (const double t : echo) echoes.push_back(1000 * std::exp(-t / t2) + noise(random));
    p.insert(p.end(), {recovered.back(), 1000, 100});  // amplitude, T1, T2
  }

  const tg::Summary summary = tg::solve_many(
      kPixels,
      [&](const tg::One& one) {
        std::vector<tg::Value> rows;
        for (std::size_t i = 0; i < inversion.size(); ++i)
          rows.push_back(one.x(0) * (1.0 - 2.0 * exp(-inversion[i] / one.x(1))) - one.data(0, i));
        for (std::size_t i = 0; i < echo.size(); ++i)
          rows.push_back(one.x(0) * exp(-echo[i] / one.x(2)) - one.data(1, i));
        return rows;
      },
      p, {.data = {recovered, echoes}, .lower = {1, 1, 1}, .upper = {1e5, 1e5, 1e5}});

  double worst[3] = {};  // relative errors of amplitude, T1, T2
  for (std::size_t i = 0; i < p.size(); ++i)
    worst[i % 3] = std::max(worst[i % 3], std::abs(p[i] / truth[i] - 1));
  std::cout << summary.message << "\nlargest errors: T1 " << 100 * worst[1] << " %, T2 "
            << 100 * worst[2] << " %\n";
  const bool all = summary.termination == tg::Termination::CONVERGENCE;
  return all && worst[1] < 0.03 && worst[2] < 0.03 ? 0 : 1;
}
