// Exact nearest neighbours by cosine: queries find the clusters from which they were drawn.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <chrono>
#include <iostream>

namespace ops = topograd::ops;

// knn_cosine [targets] [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::int64_t>(100'000, 500);  // ten per cluster
  const ops::Device device = arguments.device();
  constexpr std::int64_t kClusters = 50, kWidth = 128, kQueries = 16, kNeighbours = 10;

  // Target k is in cluster k % kClusters.
  const std::int64_t rounds = count / kClusters;
  const ops::Tensor centres = ops::randn({kClusters, kWidth}, 1);
  const ops::Tensor targets =
      (centres + ops::randn({rounds, kClusters, kWidth}, 2) * 0.7).reshape({-1, kWidth}).to(device);
  const ops::Tensor queries =
      (centres.slice(0, 0, kQueries) + ops::randn({kQueries, kWidth}, 3) * 0.7).to(device);
  targets.evaluate();

  const auto start = std::chrono::steady_clock::now();
  const ops::TopK nearest = ops::top_k(ops::cosine_similarity(queries, targets), kNeighbours);
  const auto neighbours = nearest.indices.values();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;

  int right = 0;
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    const auto query = static_cast<std::int64_t>(k) / kNeighbours;
    right += static_cast<std::int64_t>(neighbours[k]) % kClusters == query;
  }
  std::cout << kQueries << " queries among " << targets.size(0) << " targets on " << device.name()
            << ": " << right << " of " << neighbours.size()
            << " neighbours are of the query's cluster; " << took.count() << " ms\n";
  return right == kQueries * kNeighbours ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "knn_cosine [TARGETS] [best|cpu|vulkan]", program);
}
