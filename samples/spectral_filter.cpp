// Denoises a signal: transforms to frequencies, removes the weak ones, and transforms back.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <cmath>
#include <iostream>
#include <numbers>
#include <vector>

namespace ops = topograd::ops;

// spectral_filter [length] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto length = arguments.count<std::int64_t>(1'000'000, 400);  // contains 170 periods
  const ops::Device device = arguments.device();
  std::vector<float> tones(static_cast<std::size_t>(length));
  for (std::size_t t = 0; t < tones.size(); ++t) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(t) / static_cast<double>(length);
    tones[t] = static_cast<float>(std::sin(50 * turn) + 0.5 * std::cos(170 * turn));
  }
  const ops::Tensor clean = ops::tensor(tones, {length}).to(device);
  const ops::Tensor noisy = clean + ops::randn({length}, 7).to(device);

  const ops::Tensor spectrum = ops::rfft(noisy);
  const ops::Tensor power = ops::sum(ops::square(spectrum), {-1}, true);
  const ops::Tensor strong = ops::less(ops::max(power) * 0.02, power);
  const ops::Tensor filtered = ops::irfft(spectrum * strong, length);

  const double before = std::sqrt(ops::mse_loss(noisy, clean).item());
  const double after = std::sqrt(ops::mse_loss(filtered, clean).item());
  std::cout << length << " samples on " << device.name() << ": " << ops::sum(strong).item()
            << " frequencies kept, error " << before << " before and " << after << " after\n";
  return ops::sum(strong).item() == 2 && after < 0.1 * before ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "spectral_filter [LENGTH] [best|cpu|vulkan]", program);
}
