// Value at risk of a portfolio: correlated scenarios, the worst of them, and a histogram of all.
#include <topograd/ops/arrays.hpp>
#include <topograd/ops/tensors.hpp>

#include "png_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace ops = topograd::ops;

constexpr int kBars = 120;

// Bars, 4 pixels wide; bars from `mark` on are red.
static void draw_histogram(const std::string& path, const std::vector<std::uint32_t>& counts,
                           int mark) {
  constexpr int kHeight = 240;
  const int most = static_cast<int>(std::ranges::max(counts));
  sample::Picture picture{std::size_t{kBars} * 4, kHeight,
                          std::vector<std::uint8_t>(std::size_t{kBars} * 4 * kHeight * 3, 255)};
  for (int x = 0; x < kBars * 4; ++x) {
    const int bar = x / 4, count = static_cast<int>(counts[static_cast<std::size_t>(bar)]);
    const int top = kHeight - count * (kHeight - 10) / most;
    const bool beyond = bar >= mark;
    for (int y = x % 4 == 3 ? kHeight : top; y < kHeight; ++y) {
      std::uint8_t* pixel = picture.rgb.data() + 3 * (y * kBars * 4 + x);
      pixel[0] = beyond ? 200 : 60;
      pixel[1] = beyond ? 50 : 90;
      pixel[2] = beyond ? 50 : 160;
    }
  }
  sample::write_png(path, picture);
}

// value_at_risk OUT.png [scenarios] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const std::string out = arguments.text("value_at_risk.png");
  const auto scenarios = arguments.count<std::int64_t>(100'000, 100);
  const ops::Device device = arguments.device();
  constexpr std::int64_t kAssets = 40, kFactors = 6;

  // Returns of assets are determined by a few factors, and a part of their own.
  const auto normal = [&](const ops::Shape& shape, std::uint64_t seed) {
    return ops::randn(shape, seed, ops::Type::f32, device);
  };
  const ops::Tensor loadings = normal({kFactors, kAssets}, 1) * 0.01;
  const ops::Tensor own = (ops::rand({kAssets}, 2) * 0.01).to(device);
  const ops::Tensor weights = (ops::rand({kAssets, 1}, 3) * (2e6 / kAssets)).to(device);
  const ops::Tensor factors = normal({scenarios, kFactors}, 4);
  const ops::Tensor noise = normal({scenarios, kAssets}, 5);
  const ops::Tensor returns = ops::matmul(factors, loadings) + noise * own;
  const ops::Tensor losses = ops::matmul(-returns, weights).reshape({scenarios});
  const std::int64_t worst = std::max<std::int64_t>(1, scenarios / 100);
  const ops::Tensor tail = ops::top_k(losses, worst).values;
  const double at_risk = tail.slice(0, worst - 1, worst).item();
  const double shortfall = ops::mean(tail).item();

  // The portfolio is normally distributed: its quantile and the error of an estimate are known.
  const ops::Tensor exposure = ops::matmul(loadings, weights);
  const double deviation = std::sqrt(
      (ops::sum(ops::square(exposure)) + ops::sum(ops::square(own * weights.reshape({kAssets}))))
          .item());
  constexpr double kQuantile = 2.3263478740408408;  // of 0.99
  const double exact = kQuantile * deviation;
  const double density =
      std::exp(-kQuantile * kQuantile / 2) / std::sqrt(2 * 3.14159265358979) / deviation;
  const double error = std::sqrt(0.01 * 0.99 / static_cast<double>(scenarios)) / density;
  std::cout << scenarios << " scenarios on " << device.name() << ": 99 % value at risk " << at_risk
            << " +- " << error << " (exact " << exact << "), expected shortfall " << shortfall
            << "\n";
  const double low = ops::min(losses).item(), high = ops::max(losses).item();
  const auto counts = ops::histogram(ops::array_of<float>(losses), {kBars, low, high}).to_vector();
  draw_histogram(out, counts, static_cast<int>((at_risk - low) / (high - low) * kBars) + 1);
  return std::abs(at_risk - exact) <= 3 * error ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "value_at_risk [OUT.png] [SCENARIOS] [best|cpu|vulkan]", program);
}
