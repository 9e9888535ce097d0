// Approximate nearest neighbours: recall and time of searches.
#include <topograd/ops/tensors.hpp>

#include "sample.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace ops = topograd::ops;

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::int64_t kNeighbours = 10;

// Median time of some searches; the first compiles.
static double median_ms(const ops::NearestIndex& index, const ops::Tensor& queries,
                        std::vector<double>& found) {
  std::vector<double> ms;
  for (int k = 0; k < 6; ++k) {
    const auto start = Clock::now();
    found = index.search(queries, kNeighbours).indices.values();
    if (k > 0) ms.push_back(Milliseconds(Clock::now() - start).count());
  }
  std::ranges::sort(ms);
  return ms[ms.size() / 2];
}

// nearest [targets] [best|cpu|vulkan] [numbers of a target] [queries]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::int64_t>(100'000, kNeighbours);
  const ops::Device device = arguments.device();
  const auto width = arguments.count<std::int64_t>(64);
  const auto asked = arguments.count<std::int64_t>(100);

  // Embedded data has far fewer dimensions than numbers: here eight, mixed into all numbers.
  const ops::Tensor mixing = ops::randn({8, width}, 1);
  const auto embedded = [&](std::int64_t rows, std::uint64_t seed) {
    const ops::Tensor noise = ops::randn({rows, width}, seed + 1) * 0.1;
    return (ops::matmul(ops::randn({rows, 8}, seed), mixing) + noise).evaluate().to(device);
  };
  const ops::Tensor targets = embedded(count, 2), queries = embedded(asked, 4);

  const auto start = Clock::now();
  const ops::NearestIndex index(targets, {.distance = ops::Distance::cosine, .search_width = 64});
  const Milliseconds built = Clock::now() - start;
  const ops::NearestIndex all(targets, {.distance = ops::Distance::cosine, .exact = true});

  std::vector<double> found, expected;
  const double search_ms = median_ms(index, queries, found);
  const double exact_ms = median_ms(all, queries, expected);
  int right = 0;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const auto row = expected.begin() + static_cast<std::ptrdiff_t>(k - k % kNeighbours);
    right += std::count(row, row + kNeighbours, found[k]) == 1;
  }
  const double recall = static_cast<double>(right) / static_cast<double>(found.size());
  std::printf("%lld queries among %lld targets of %lld numbers on %s\n",
              static_cast<long long>(asked), static_cast<long long>(count),
              static_cast<long long>(width), device.name().c_str());
  std::printf("graph built in %.0f ms%s\n", built.count(),
              index.is_approximate() ? "" : " (this build has none)");
  std::printf("search %.2f ms, all compared %.2f ms; %.1f %% of the neighbours are the true ones\n",
              search_ms, exact_ms, 100 * recall);
  return recall >= 0.95 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "nearest [TARGETS] [best|cpu|vulkan] [NUMBERS] [QUERIES]",
                     program);
}
