// Activation that spreads over a sparse graph: gather, map, scatter, all on the device.
#include <topograd/ops/arrays.hpp>

#include "sample.hpp"

#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

namespace ops = topograd::ops;
using topograd::Value;

namespace {

/// A ring in which each node also has one distant neighbour: edges as two columns.
struct Graph {
  std::uint32_t nodes;
  std::vector<std::uint32_t> from, to;

  explicit Graph(std::uint32_t count) : nodes(count) {
    for (std::uint32_t k = 0; k < count; ++k) {
      for (const std::uint64_t step :
           {std::uint64_t{1}, count - std::uint64_t{1}, 37 * std::uint64_t{k} + 5}) {
        from.push_back(k);
        to.push_back(static_cast<std::uint32_t>((k + step) % count));
      }
    }
  }
};

}  // namespace

// spreading [nodes] [steps] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::uint32_t>(100'000, 2);
  const int steps = arguments.count(20);
  const ops::Device device = arguments.device();
  const Graph graph(count);
  ops::Array<std::uint32_t> from(graph.from), to(graph.to);
  ops::Array<float> activation = ops::Array<float>::full(count, 0.0f);
  activation.write()[0] = 1;
  activation.to(device);
  from.to(device);
  to.to(device);

  const ops::BackendCounters before = device.backend().counters();
  for (int step = 0; step < steps; ++step) {
    // Every node keeps half and gives a sixth to each of its three neighbours.
    const auto given = map([](Value a) { return a / 6.0; }, gather(activation, from));
    activation = map([](Value a) { return a / 2.0; }, activation);
    scatter(given, to, activation, ops::Combine::add);
  }
  const ops::BackendCounters moved = device.backend().counters() - before;
  const bool stayed = moved.bytes_up == 0 && moved.bytes_down == 0;
  const auto reached =
      compact([](Value a) { return select(a > 1e-6, Value(1), Value(0)); }, activation);
  const float total = sum(activation).item();
  const std::uint32_t most = argmax(activation).item();

  std::cout << steps << " steps on " << device.name() << ": " << reached.size() << " of " << count
            << " nodes reached, most active " << most << ", total " << total << "\n";
  // The total is unchanged, and no step left the device.
  return stayed && std::abs(total - 1) < 1e-4 && reached.size() > 1 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "spreading [NODES] [STEPS] [best|cpu|vulkan]", program);
}
