// Runs a network on a thousand images in one call, on each alone, and on some by plain loops.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace ops = topograd::ops;
namespace nn = topograd::ops::nn;

// x W + b of one row of numbers.
static std::vector<double> dense(const std::vector<double>& x, const ops::Tensor& weights,
                                 const ops::Tensor& bias) {
  const std::vector<double> w = weights.values();
  std::vector<double> out = bias.values();
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < out.size(); ++k) out[k] += x[i] * w[i * out.size() + k];
  return out;
}

// The output of the network for an image, from the definition of its layers.
static std::vector<double> by_loops(const nn::Sequential& net, const std::vector<double>& image) {
  const std::vector<ops::Tensor>& p = net.parameters();
  std::vector<double> hidden = dense(image, p[0], p[1]);
  for (double& h : hidden) h *= std::erfc(-h / std::sqrt(2.0)) / 2;
  std::vector<double> out = dense(hidden, p[2], p[3]);
  double sum = 0;
  for (double& x : out) sum += x = std::exp(x);
  for (double& x : out) x /= sum;
  return out;
}

// batched_inference [images] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::int64_t>(1000);
  const ops::Device device = arguments.device();
  const ops::NoGrad guard;
  nn::Sequential net{nn::Dense(784, 512), ops::gelu, nn::Dense(512, 10),
                     [](const ops::Tensor& x) { return ops::softmax(x); }};
  net.to(device);
  const ops::Tensor images = ops::rand({count, 784}, 1).to(device);
  net(images).values();  // compiles

  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto start = Clock::now();
  const std::vector<double> together = net(images).values();
  const Milliseconds one_call = Clock::now() - start;
  const std::int64_t alone = std::min<std::int64_t>(count, 20);
  const auto start_alone = Clock::now();
  double worst = 0;
  for (std::int64_t k = 0; k < alone; ++k) {
    const auto one = net(images.slice(0, k, k + 1)).values();
    for (std::size_t c = 0; c < 10; ++c)
      worst = std::max(worst, std::abs(one[c] - together[static_cast<std::size_t>(k) * 10 + c]));
  }
  const Milliseconds each = (Clock::now() - start_alone) / static_cast<double>(alone);
  for (std::int64_t k = 0; k < std::min<std::int64_t>(count, 3); ++k) {
    const auto want = by_loops(net, images.slice(0, k, k + 1).values());
    for (std::size_t c = 0; c < 10; ++c)
      worst = std::max(worst, std::abs(want[c] - together[static_cast<std::size_t>(k) * 10 + c]));
  }
  std::cout << count << " images on " << device.name() << ": " << one_call.count()
            << " ms in one call, " << each.count() << " ms for one alone; answers differ by "
            << worst << "\n";
  return worst < 1e-5 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "batched_inference [IMAGES] [best|cpu|vulkan]", program);
}
