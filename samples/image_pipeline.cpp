// Sharpens an image, draws its edges and adjusts its tones: filters, and one kernel for the rest.
#include <topograd/ops/tensors.hpp>

#include "png_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace ops = topograd::ops;
using topograd::Value;

// Three planes of numbers in [0, 1]: red, green, blue.
static ops::Tensor planes_of(const sample::Picture& picture) {
  std::vector<float> numbers(picture.rgb.size());
  std::ranges::transform(picture.rgb, numbers.begin(),
                         [](std::uint8_t b) { return float(b) / 255.0f; });
  return ops::tensor(numbers, {std::int64_t(picture.height), std::int64_t(picture.width), 3})
      .permute({2, 0, 1});
}

static sample::Picture picture_of(const ops::Tensor& planes) {
  const std::vector<float> numbers = planes.permute({1, 2, 0}).floats();
  sample::Picture picture{std::size_t(planes.size(2)), std::size_t(planes.size(1)), {}};
  for (const float x : numbers)
    picture.rgb.push_back(static_cast<std::uint8_t>(std::lround(255 * std::clamp(x, 0.0f, 1.0f))));
  return picture;
}

// Balls in front of a sky.
static sample::Picture rendered(std::int64_t height, std::int64_t width) {
  sample::Picture picture{std::size_t(width), std::size_t(height), {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const double u = double(x) / double(height), v = double(y) / double(height);
      std::array<double, 3> c = {0.35 + 0.3 * v, 0.5 + 0.2 * v, 0.8 - 0.1 * v};
      for (int ball = 0; ball < 7; ++ball) {
        const double cx = 0.2 + 0.23 * ball, cy = 0.5 + 0.25 * std::sin(2.1 * ball);
        const double r = 0.1 + 0.03 * (ball % 3), dx = (u - cx) / r, dy = (v - cy) / r;
        if (dx * dx + dy * dy > 1) continue;
        const double dz = std::sqrt(1 - dx * dx - dy * dy);
        const double light = std::max(0.1, 0.4 * dz - 0.6 * dx - 0.6 * dy);
        const bool stripe = std::fmod(10 + 4 * std::atan2(dx, dz) + ball, 2.0) < 1;
        c = {light * (stripe ? 0.9 : 0.3), light * 0.5, light * (stripe ? 0.2 : 0.7)};
      }
      for (const double level : c)
        picture.rgb.push_back(
            static_cast<std::uint8_t>(std::lround(255 * std::clamp(level, 0.0, 1.0))));
    }
  }
  return picture;
}

// The definition of the pipeline for one level of a picture of planes.
static double by_loops(const std::vector<double>& planes, std::int64_t height, std::int64_t width,
                       std::int64_t plane, std::int64_t row, std::int64_t column) {
  const auto level = [&](std::int64_t p, std::int64_t y, std::int64_t x) {
    y = std::clamp<std::int64_t>(y, 0, height - 1);
    x = std::clamp<std::int64_t>(x, 0, width - 1);
    return planes[static_cast<std::size_t>((p * height + y) * width + x)];
  };
  constexpr double kBell[] = {1, 4, 6, 4, 1};
  const auto smooth = [&](std::int64_t p, std::int64_t y, std::int64_t x) {
    y = std::clamp<std::int64_t>(y, 0, height - 1);
    x = std::clamp<std::int64_t>(x, 0, width - 1);
    double sum = 0;
    for (std::int64_t i = 0; i < 25; ++i)
      sum += kBell[i / 5] * kBell[i % 5] / 256 * level(p, y + i / 5 - 2, x + i % 5 - 2);
    return sum;
  };
  double across = 0, down = 0;
  for (const std::int64_t y : {-1, 0, 1}) {
    for (const std::int64_t x : {-1, 0, 1}) {
      double grey = 0;
      for (std::int64_t p = 0; p < 3; ++p) grey += smooth(p, row + y, column + x) / 3;
      across += double(x * (y == 0 ? 2 : 1)) * grey;
      down += double(y * (x == 0 ? 2 : 1)) * grey;
    }
  }
  const auto step = [](double from, double to, double x) {
    const double t = std::clamp((x - from) / (to - from), 0.0, 1.0);
    return t * t * (3 - 2 * t);
  };
  const double own = level(plane, row, column);
  const double sharp = own + (own - smooth(plane, row, column)) * 1.5;
  return step(-0.1, 1.05, sharp) * (1 - step(0.3, 1.2, std::hypot(across, down)));
}

// image_pipeline OUT.png [best|cpu|vulkan] [IN.png | HEIGHT]: a picture of 3840 x 2160 by default
static int program(sample::Arguments& arguments) {
  const std::string out = arguments.text("image_pipeline.png");
  const ops::Device device = arguments.device();
  const bool from_file = arguments.more() && !arguments.is_number();
  const auto rows = from_file ? 0 : arguments.count<std::int64_t>(2160, 1, 20'000);
  const ops::Tensor input =
      planes_of(from_file ? sample::read_png(arguments.file()) : rendered(rows, rows * 16 / 9));

  const auto start = std::chrono::steady_clock::now();
  const ops::Tensor image = input.to(device);
  // A kernel that is a column times a row is detected and run as two filters.
  const std::vector<double> bell = {1, 4, 6, 4, 1};
  std::vector<double> blur;
  for (const double a : bell)
    for (const double b : bell) blur.push_back(a * b / 256);
  const ops::Tensor smooth = ops::filter2d(image, blur, 5, 5);
  const ops::Tensor grey = ops::mean(smooth, {0});
  const ops::Tensor across =
      ops::filter2d(grey, std::vector<double>{-1, 0, 1, -2, 0, 2, -1, 0, 1}, 3, 3);
  const ops::Tensor down =
      ops::filter2d(grey, std::vector<double>{-1, -2, -1, 0, 0, 0, 1, 2, 1}, 3, 3);
  // Sharpening, edges and the tone curve are one kernel.
  const ops::Tensor edges = ops::sqrt(ops::square(across) + ops::square(down));
  const ops::Tensor sharp = image + (image - smooth) * 1.5;
  const ops::Tensor result = ops::map(
      [](const Value& level, const Value& edge) {
        const Value toned = topograd::smoothstep(-0.1, 1.05, level);
        return toned * (1.0 - topograd::smoothstep(0.3, 1.2, edge));
      },
      sharp, edges);
  result.evaluate();
  device.synchronise();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

  sample::write_png(out, picture_of(result));
  std::cout << image.size(2) << " x " << image.size(1) << " on " << device.name() << ": "
            << took.count() << " ms, " << out << "\n";
  // Compares every pixel in the border's rows, and some of the others.
  const std::vector<double> levels = input.values(), got = result.values();
  const std::int64_t height = input.size(1), width = input.size(2);
  double worst = 0;
  for (std::int64_t at = 0; at < 3 * height * width; at += at % (height * width) < width ? 1 : 97) {
    const std::int64_t row = at / width % height;
    const double want = by_loops(levels, height, width, at / (height * width), row, at % width);
    worst = std::max(worst, std::abs(want - got[static_cast<std::size_t>(at)]));
  }
  std::cout << "off by " << worst << " from plain loops\n";
  return worst < 1e-4 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "image_pipeline [OUT.png] [best|cpu|vulkan] [IN.png|HEIGHT]",
                     program);
}
