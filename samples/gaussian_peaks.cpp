// Peaks in a stack of small images: each is fitted by amplitude, centre, width and background.
#include <topograd/topograd.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace tg = topograd;

int main() {
  constexpr int kImages = 2000, kSize = 9, kPixels = kSize * kSize;
  std::mt19937_64 random(1);
  const auto between = [&](double a, double b) {
    return std::uniform_real_distribution<double>(a, b)(random);
  };
  std::normal_distribution<double> noise(0, 2);
  std::vector<double> truth, images, p;
  for (int k = 0; k < kImages; ++k) {
    const double amplitude = between(80, 200), cx = between(3, 5), cy = between(3, 5);
    const double width = between(1, 1.8), background = between(5, 15);
    truth.insert(truth.end(), {cx, cy});
    for (int i = 0; i < kPixels; ++i) {
      const double dx = i % kSize - cx, dy = i / kSize - cy;
      images.push_back(amplitude * std::exp(-(dx * dx + dy * dy) / (2 * width * width)) +
                       background + noise(random));
    }
    // The start: the darkest pixel, and the brightest one above it.
    const auto image = images.end() - kPixels;
    const auto [low, high] = std::minmax_element(image, images.end());
    const auto at = static_cast<int>(high - image);
    p.insert(p.end(), {*high - *low, double(at % kSize), double(at / kSize), 1.5, *low});
  }

  const tg::Summary summary =
      tg::solve_many(kImages,
                     [](const tg::One& one) {
                       std::vector<tg::Value> rows;
                       for (int i = 0; i < kPixels; ++i) {
                         const tg::Value square = tg::square(one.x(1) - double(i % kSize)) +
                                                  tg::square(one.x(2) - double(i / kSize));
                         rows.push_back(one.x(0) * exp(-square / (2.0 * tg::square(one.x(3)))) +
                                        one.x(4) - one.data(0, i));
                       }
                       return rows;
                     },
                     p, {.data = {images}}, {.component_covariances = true});

  double error = 0, expected = 0;  // of the centres, squared; expected from the noise
  for (int k = 0; k < kImages; ++k) {
    const double* const covariance = &summary.components.covariance[25 * k];
    error +=
        std::pow(p[5 * k + 1] - truth[2 * k], 2) + std::pow(p[5 * k + 2] - truth[2 * k + 1], 2);
    expected += 4 * (covariance[6] + covariance[12]);
  }
  std::cout << summary.message << "\nerror of the centres " << std::sqrt(error / (2 * kImages))
            << " pixels, expected from the noise " << std::sqrt(expected / (2 * kImages)) << "\n";
  return std::abs(std::sqrt(error / expected) - 1) < 0.1 ? 0 : 1;
}
