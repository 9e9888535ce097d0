// Triangulates many points, each seen by six cameras on a circle, some of them wrongly.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace tg = topograd;

namespace {

constexpr int kCameras = 6, kPoints = 5000;
constexpr double kFocal = 800, kRadius = 5;  // pixels, m

/// Where camera c, which looks at the origin, sees a point.
template <class T>
std::array<T, 2> project(int c, const T& x, const T& y, const T& z) {
  const double angle = 2 * M_PI * c / kCameras, co = std::cos(angle), si = std::sin(angle);
  const T depth = kRadius - co * x - si * y;
  return {kFocal * (co * y - si * x) / depth, kFocal * z / depth};
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> within(-1, 1);
  std::normal_distribution<double> noise(0, 0.5);
  std::vector<double> truth, seen, points(3 * kPoints, 0.0);  // starts at the origin
  for (int k = 0; k < kPoints; ++k) {
    const double p[3] = {within(random), within(random), within(random)};
    truth.insert(truth.end(), p, p + 3);
    for (int c = 0; c < kCameras; ++c)
      for (const double at : project(c, p[0], p[1], p[2])) seen.push_back(at + noise(random));
    if (k % 5 == 0) seen[seen.size() - 1 - k % 12] += 60;  // a false match
  }

  const tg::Summary summary =
      tg::solve_many(kPoints,
                     [](const tg::One& one) {
                       std::vector<std::array<tg::Value, 2>> rows;  // a block for each camera
                       for (int c = 0; c < kCameras; ++c) {
                         const auto [u, v] = project(c, one.x(0), one.x(1), one.x(2));
                         rows.push_back({u - one.data(0, 2 * c), v - one.data(0, 2 * c + 1)});
                       }
                       return rows;
                     },
                     points, {.data = {seen}, .loss = tg::huber(1)});

  std::vector<double> errors(kPoints);
  for (int k = 0; k < kPoints; ++k)
    errors[k] = std::hypot(points[3 * k] - truth[3 * k], points[3 * k + 1] - truth[3 * k + 1],
                           points[3 * k + 2] - truth[3 * k + 2]);
  std::ranges::sort(errors);
  std::cout << summary.message << "\nerrors: median " << 1000 * errors[kPoints / 2]
            << " mm, largest " << 1000 * errors.back() << " mm\n";
  return errors[kPoints / 2] < 0.004 && errors.back() < 0.025 ? 0 : 1;
}
