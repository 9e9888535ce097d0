// Peaks in images of 5 x 5 pixels with the noise of photons: the same numbers for bench_components
// and its peer in CUDA (C++17).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace topograd::bench {

constexpr std::size_t kPeakSide = 5;
constexpr std::size_t kPixels = kPeakSide * kPeakSide;
/// Amplitude, both coordinates of the centre, width, background.
constexpr std::size_t kPeakUnknowns = 5;

/// One after the other.
struct PeakImages {
  std::vector<double> truth, starts;  ///< count x kPeakUnknowns
  std::vector<double> pixels;         ///< count x kPixels
};

inline PeakImages make_peaks(std::size_t count) {
  PeakImages out;
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise;
  const auto between = [&](double a, double b) {
    return std::uniform_real_distribution<double>(a, b)(random);
  };
  for (std::size_t k = 0; k < count; ++k) {
    const double amplitude = between(300, 900), cx = between(1.6, 2.4), cy = between(1.6, 2.4);
    const double width = between(0.8, 1.2), background = between(5, 15);
    for (std::size_t i = 0; i < kPixels; ++i) {
      const double dx = static_cast<double>(i % kPeakSide) - cx;
      const double dy = static_cast<double>(i / kPeakSide) - cy;
      const double photons =
          amplitude * std::exp(-(dx * dx + dy * dy) / (2 * width * width)) + background;
      out.pixels.push_back(photons + std::sqrt(photons) * noise(random));
    }
    out.truth.insert(out.truth.end(), {amplitude, cx, cy, width, background});
    out.starts.insert(out.starts.end(), {600, 2, 2, 1, 10});
  }
  return out;
}

/// Median of |x - truth| over all peaks, by unknown. The sign of a width does not count.
inline std::array<double, kPeakUnknowns> median_errors(const std::vector<double>& x,
                                                       const std::vector<double>& truth) {
  std::array<double, kPeakUnknowns> out{};
  std::vector<double> errors(x.size() / kPeakUnknowns);
  if (errors.empty()) return out;
  for (std::size_t i = 0; i < kPeakUnknowns; ++i) {
    for (std::size_t k = 0; k < errors.size(); ++k) {
      const double value = x[k * kPeakUnknowns + i];
      errors[k] = std::abs((i == 3 ? std::abs(value) : value) - truth[k * kPeakUnknowns + i]);
    }
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    out[i] = *middle;
  }
  return out;
}

}  // namespace topograd::bench
