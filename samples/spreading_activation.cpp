// Activation that spreads over a sparse graph: gather, multiply, scatter; steps stay on the device.
#include <topograd/ops/scan.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace ops = topograd::ops;
using topograd::Value;

// spreading_activation [nodes] [best|cpu|vulkan]
int main(int argc, char** argv) {
  const auto nodes = static_cast<std::uint32_t>(argc > 1 ? std::atoll(argv[1]) : 1'000'000);
  const std::string where = argc > 2 ? argv[2] : "best";
  const ops::Device device = where == "cpu"      ? ops::Device::cpu()
                             : where == "vulkan" ? ops::Device::vulkan()
                                                 : ops::Device::best();
  constexpr std::uint32_t kEdges = 8, kSteps = 10;  // edges out of a node

  // Small steps along a ring, and a few far ones; what leaves a node adds up to 0.9.
  std::mt19937 random(1);
  std::vector<std::uint32_t> from, to;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    for (std::uint32_t k = 0; k < kEdges; ++k) {
      from.push_back(node);
      to.push_back(k < 6 ? (node + random() % 50) % nodes : random() % nodes);
    }
  }
  ops::Array<std::uint32_t> sources(from), targets(to);
  std::vector<float> start(nodes, 0.0f);
  start[0] = 1;
  ops::Array<float> activation(start);
  sources.to(device);
  targets.to(device);
  activation.to(device);

  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const ops::Array<float> sent =
        ops::map([](const Value& level) { return level * (0.9 / kEdges); },
                 ops::gather(activation, sources));
    ops::Array<float> next = ops::map([](const Value& level) { return level * 0.1; }, activation);
    ops::scatter(sent, targets, next, ops::Combine::add);
    activation = next;
  }
  const std::vector<float> reached = activation.to_vector();

  // The same, one edge after the other.
  std::vector<double> level(nodes, 0.0);
  level[0] = 1;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    std::vector<double> next(nodes);
    for (std::uint32_t node = 0; node < nodes; ++node) next[node] = 0.1 * level[node];
    for (std::size_t edge = 0; edge < from.size(); ++edge)
      next[to[edge]] += 0.9 / kEdges * level[from[edge]];
    level = std::move(next);
  }
  double worst = 0, total = 0;
  std::uint32_t awake = 0;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    worst = std::max(worst, std::abs(level[node] - static_cast<double>(reached[node])));
    total += static_cast<double>(reached[node]);
    awake += reached[node] > 0;
  }
  std::cout << nodes << " nodes on " << device.name() << ": " << awake << " awake after " << kSteps
            << " steps, activation " << total << ", " << worst << " off at most\n";
  return worst < 1e-6 && std::abs(total - 1) < 1e-3 ? 0 : 1;
}
