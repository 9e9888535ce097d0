// Trains a network on two devices, and compares each step with that of one device.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace ops = topograd::ops;
namespace nn = topograd::ops::nn;

static nn::Layer network() {
  return nn::Sequential{nn::Dense(32, 64, 1), ops::relu, nn::Dense(64, 4, 2)};
}

// data_parallel [rows] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto rows = arguments.count<std::int64_t>(4'000, 2);
  const ops::Device device = arguments.device();
  // The class of a row is the largest of four random combinations of its numbers.
  const ops::Tensor x = ops::randn({rows, 32}, 3, ops::Type::f32, ops::Device::cpu());
  const ops::Tensor mix = ops::randn({32, 4}, 4, ops::Type::f32, ops::Device::cpu());
  const ops::Tensor y = ops::argmax(ops::matmul(x, mix)).evaluate();
  const auto loss = [](const ops::Tensor& out, const ops::Tensor& classes) {
    return ops::cross_entropy(out, classes);
  };

  const nn::DataParallel parallel(network, {device, ops::Device::cpu()});
  nn::Adam adam(parallel.parameters(), {.rate = 0.01});
  const auto step = [&] {
    adam.zero_grad();
    const ops::Tensor now = parallel.backward(x, y, loss);
    adam.step();
    return now.item();
  };

  const nn::Layer alone = network();
  nn::Adam adam_alone(alone.parameters(), {.rate = 0.01});
  const auto step_alone = [&] {
    adam_alone.zero_grad();
    const ops::Tensor now = loss(alone(x), y);
    now.backward();
    adam_alone.step();
    return now.item();
  };

  constexpr int kSteps = 40;
  double first = 0, last = 0, farthest = 0;
  std::chrono::duration<double, std::milli> together{}, one{};
  const auto timed = [](const std::function<double()>& run, auto& total) {
    const auto start = std::chrono::steady_clock::now();
    const double out = run();
    total += std::chrono::steady_clock::now() - start;
    return out;
  };
  for (int k = 0; k < kSteps; ++k) {
    const double here = timed(step, together), there = timed(step_alone, one);
    if (k == 0) first = here;
    last = here;
    farthest = std::max(farthest, std::abs(here - there));
  }
  std::printf("%s and cpu: %.2f ms a step, one device: %.2f ms\n", device.name().c_str(),
              together.count() / kSteps, one.count() / kSteps);
  std::printf("loss %.4f, after %d steps %.4f, farthest from one device %.1e\n", first, kSteps,
              last, farthest);
  return last < 0.5 * first && farthest < 1e-3 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "data_parallel [ROWS] [best|cpu|vulkan]", program);
}
