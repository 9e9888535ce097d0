// Blurs frames of a film: while the device works on one frame, the host reads the previous one.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace ops = topograd::ops;

constexpr std::int64_t kHeight = 1080, kWidth = 1920;

// A disc that moves over stripes.
static std::vector<float> frame(int number, std::int64_t height, std::int64_t width) {
  std::vector<float> out(static_cast<std::size_t>(height * width));
  const double x0 = width * (0.3 + 0.05 * number), y0 = height * 0.5, radius = height * 0.2;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const bool inside = std::hypot(x - x0, y - y0) < radius;
      out[static_cast<std::size_t>(y * width + x)] =
          inside ? 1.0f : (x / 40 % 2 == 0 ? 0.2f : 0.4f);
    }
  }
  return out;
}

// 9 x 9 weights of a Gaussian: a column times a row, which filter2d detects.
static std::vector<double> gauss() {
  std::vector<double> out;
  double sum = 0;
  for (int k = 0; k < 81; ++k) {
    const int row = k / 9 - 4, column = k % 9 - 4;
    out.push_back(std::exp(-(row * row + column * column) / 8.0));
    sum += out.back();
  }
  for (double& weight : out) weight /= sum;
  return out;
}

// frames [count] [best|cpu|vulkan] [height]
static int program(sample::Arguments& arguments) {
  const int count = arguments.count(300);
  const ops::Device device = arguments.device();
  const auto height = arguments.count<std::int64_t>(kHeight, 1, 20'000);
  const std::int64_t width = height * kWidth / kHeight;
  std::vector<std::vector<float>> film;  // repeated
  for (int k = 0; k < 8; ++k) film.push_back(frame(k, height, width));
  const std::vector<double> weights = gauss();

  const auto blur = [&](int k, const ops::Device& on) {
    // Uploaded from this memory, without another copy on the host.
    const auto pixels = ops::Array<float>::over(film[static_cast<std::size_t>(k % 8)]);
    return ops::filter2d(ops::tensor(pixels, {height, width}).to(on), weights, 9, 9).begin_read();
  };
  // The brightest pixel stands for any use of the blurred film.
  const auto use = [](const ops::Tensor& blurred) {
    return std::ranges::max(ops::array_of<float>(blurred).read());
  };
  const auto play = [&](bool ahead) {
    double total = 0;
    const auto start = std::chrono::steady_clock::now();
    ops::Tensor before;
    for (int k = 0; k < count; ++k) {
      const ops::Tensor now = blur(k, device);
      if (!ahead) {
        total += use(now);
        continue;
      }
      if (before) total += use(before);
      before = now;
    }
    if (before) total += use(before);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return std::pair(total, took.count() / count);
  };
  use(blur(0, device));  // compiles
  const auto [one_by_one, slow] = play(false);
  const auto [together, fast] = play(true);

  const std::vector<double> want = blur(3, ops::Device::cpu()).values();
  const std::vector<double> got = blur(3, device).values();
  double error = 0;
  for (std::size_t k = 0; k < want.size(); ++k) error = std::max(error, std::abs(want[k] - got[k]));
  std::cout << count << " frames of " << width << " x " << height << " on " << device.name() << ": "
            << fast << " ms a frame, " << slow
            << " where each is read before the next begins; farthest from the CPU " << error
            << "\n";
  return error < 1e-5 && one_by_one == together ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "frames [COUNT] [best|cpu|vulkan] [HEIGHT]", program);
}
