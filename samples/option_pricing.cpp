// Prices a call option by simulation, and compares with the closed form.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

namespace ops = topograd::ops;
using topograd::Value;

// option_pricing [paths] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto paths = arguments.count<std::int64_t>(10'000'000, 2, 1'000'000'000'000);
  const ops::Device device = arguments.device();
  const double price = 100, strike = 105, rate = 0.03, volatility = 0.2, years = 1;

  // A million paths at a time; only two numbers of each million are read.
  const double drift = (rate - volatility * volatility / 2) * years;
  const double spread = volatility * std::sqrt(years), discount = std::exp(-rate * years);
  double total = 0, squares = 0, simulated_ms = 0;
  for (std::int64_t done = 0; done < paths; done += 1'000'000) {
    const std::int64_t count = std::min<std::int64_t>(1'000'000, paths - done);
    const auto start = std::chrono::steady_clock::now();
    const auto seed = static_cast<std::uint64_t>(done) + 1;
    const ops::Tensor z = ops::randn({count}, seed, ops::Type::f32, device);
    const ops::Tensor payoff = ops::map(
        [&](const Value& normal) {
          const Value end = price * exp(drift + spread * normal);
          return discount * max(end - strike, 0.0);
        },
        z);
    total += ops::sum(payoff).item();
    squares += ops::sum(ops::square(payoff)).item();
    simulated_ms +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  const double n = static_cast<double>(paths), mean = total / n;
  const double error = std::sqrt((squares / n - mean * mean) / n);

  // Source: Black & Scholes, Journal of Political Economy 81 (1973).
  const double d1 =
      (std::log(price / strike) + (rate + volatility * volatility / 2) * years) / spread;
  const auto normal_law = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double exact = price * normal_law(d1) - strike * discount * normal_law(d1 - spread);
  std::cout << paths << " paths on " << device.name() << ": " << mean << " +- " << error
            << ", closed form " << exact << ", " << (mean - exact) / error
            << " standard errors apart; " << simulated_ms << " ms\n";
  return std::abs(mean - exact) <= 3 * error ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "option_pricing [PATHS] [best|cpu|vulkan]", program);
}
