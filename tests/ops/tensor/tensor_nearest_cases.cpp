// Nearest neighbours against plain loops in double.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/run/run.hpp"
#include "../../../ops/tensor/operations.hpp"
#include "../../../ops/tensor/search/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

using Vector = std::vector<double>;

double distance_of(Distance kind, const double* a, const double* b, std::int64_t d) {
  double squared = 0, product = 0, length_a = 0, length_b = 0;
  for (std::int64_t i = 0; i < d; ++i) {
    squared += (a[i] - b[i]) * (a[i] - b[i]);
    product += a[i] * b[i];
    length_a += a[i] * a[i];
    length_b += b[i] * b[i];
  }
  return kind == Distance::euclidean ? std::sqrt(squared)
                                     : 1 - product / std::sqrt(length_a * length_b);
}

/// Rows of targets, sorted by distance from a query.
std::vector<std::size_t> sorted_rows(Distance kind, const Vector& targets, const double* query,
                                     std::int64_t d) {
  Vector distances;
  for (std::size_t row = 0; row * static_cast<std::size_t>(d) < targets.size(); ++row)
    distances.push_back(distance_of(kind, query, &targets[row * static_cast<std::size_t>(d)], d));
  std::vector<std::size_t> order(distances.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::size_t row) { return distances[row]; });
  return order;
}

struct Recall {
  int right = 0, all = 0;
  double share() const { return static_cast<double>(right) / all; }
};

/// Checks invariants of an answer; returns its share of the true neighbours.
Recall check_answer(const NearestOptions& options, const Tensor& targets, const Tensor& queries,
                    const Nearest& found, double bound) {
  const std::int64_t d = targets.size(1);
  const auto k = static_cast<std::size_t>(found.indices.size(-1));
  const Vector t = held(targets), q = held(queries);
  const Vector distances = held(found.distances), indices = held(found.indices);
  Recall recall;
  for (std::size_t row = 0; row * k < indices.size(); ++row) {
    const double* query = &q[row * static_cast<std::size_t>(d)];
    const std::vector<std::size_t> order = sorted_rows(options.distance, t, query, d);
    std::set<std::size_t> seen;
    for (std::size_t n = 0; n < k; ++n) {
      const auto index = static_cast<std::size_t>(indices[row * k + n]);
      EXPECT_TRUE(seen.insert(index).second) << "query " << row << ": " << index << " twice";
      const double want =
          distance_of(options.distance, query, &t[index * static_cast<std::size_t>(d)], d);
      EXPECT_NEAR(distances[row * k + n], want, bound) << "query " << row << ", " << n;
      if (n > 0) {
        EXPECT_GE(distances[row * k + n], distances[row * k + n - 1]);
      }
    }
    for (std::size_t n = 0; n < k; ++n) recall.right += seen.contains(order[n]);
    recall.all += static_cast<int>(k);
  }
  return recall;
}

}  // namespace

void check_nearest(const Device& device) {
  const std::vector<Type> types =
      device.facts().float64 ? std::vector{Type::f32, Type::f64} : std::vector{Type::f32};
  for (const Type type : types) {
    const Tensor targets = sample({1200, 24}, 1, type), queries = sample({50, 24}, 2, type);
    const double bound = type == Type::f64 ? 1e-13 : 2e-6;
    for (const Distance distance : {Distance::euclidean, Distance::cosine}) {
      for (const bool exact : {true, false}) {
        const NearestIndex index(targets.to(device), {.distance = distance, .exact = exact});
        const Nearest found = index.search(queries.to(device), 10);
        EXPECT_EQ(found.distances.shape(), (Shape{50, 10}));
        EXPECT_EQ(found.distances.type(), type);
        EXPECT_EQ(found.indices.placed(), device);
        const Recall recall = check_answer(index.options(), targets, queries, found, bound);
        EXPECT_GE(recall.share(), index.is_approximate() ? 0.97 : 1.0)
            << recall.right << " of " << recall.all;
      }
    }
  }
  // A single query; long rows, for which devices have another kernel; more neighbours than a search
  // proposes.
  for (const std::int64_t d : {3, 1500}) {
    const Tensor targets = sample({150, d}, 3), query = sample({d}, 4);
    const NearestIndex index(targets.to(device), {.search_width = 5});
    const Nearest found = index.search(query.to(device), 120);
    EXPECT_EQ(found.indices.shape(), (Shape{120}));
    EXPECT_GE(check_answer(index.options(), targets, query, found, 1e-4).share(), 0.97);
  }
  // All rows but two are equal: their graph may be disconnected.
  Vector alike(300 * 4, 0.5);
  alike[4 * 7] = 3, alike[4 * 250] = -3;
  const Tensor same = tensor(alike, {300, 4});
  for (const bool exact : {true, false}) {
    const NearestIndex index(same.to(device), {.exact = exact, .search_width = 40});
    check_answer(index.options(), same, sample({5, 4}, 5),
                 index.search(sample({5, 4}, 5).to(device), 40), 1e-5);
  }
}

void check_nearest_runs(const Device& device) {
  const Tensor targets = sample({500, 16}, 1).to(device), queries = sample({20, 16}, 2);
  const NearestIndex index(targets, {.search_width = 30});
  RecordOperations record;
  index.search(queries, 5).indices.values();
  std::vector<std::string> devices;
  for (const RanOperation& ran : record.all())
    if (ran.op == Operation::Nearest) devices.push_back(ran.stats.device);
  // The graph on the CPU, the distances on the targets' device.
  const std::vector<std::string> want = index.is_approximate()
                                            ? std::vector<std::string>{"cpu", device.name()}
                                            : std::vector<std::string>{device.name()};
  EXPECT_EQ(devices, want);
  ExecutionStats stats;
  const Nearest found = index.search(queries, 5, {.device = Device::cpu(), .stats = &stats});
  EXPECT_EQ(stats.device, "cpu");
  EXPECT_GT(stats.times.kernel, 0);
  EXPECT_EQ(held(found.indices), held(index.search(queries, 5).indices));
  EXPECT_EQ(index.search(sample({0, 16}), 5).indices.shape(), (Shape{0, 5}));
}

}  // namespace topograd::ops::test
