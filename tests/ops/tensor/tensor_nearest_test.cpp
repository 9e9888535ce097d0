// Nearest neighbours on the CPU: results, reproducible graphs, errors.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/search/nearest.hpp"

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

TEST(TensorNearest, OnTheCpu) { check_nearest(Device::cpu()); }
TEST(TensorNearest, Runs) { check_nearest_runs(Device::cpu()); }

TEST(TensorNearest, OfOneThreadIsTheSame) {
  const Tensor targets = sample({3000, 12}, 1), queries = sample({40, 12}, 2);
  const auto search = [&](std::uint64_t seed) {
    const NearestIndex index(targets, {.search_width = 10, .seed = seed, .deterministic = true});
    return held(index.search(queries, 10).indices);
  };
  EXPECT_EQ(search(1), search(1));
}

TEST(TensorNearest, Refuses) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const NearestIndex index(sample({7, 4}));
  const Tensor holed = tensor({1, 2, 3, kInfinity, 5, 6}, {3, 2});
  struct Row {
    std::function<void()> call;
    std::string expected;
  };
  std::vector<Row> rows = {{[] { NearestIndex{sample({7})}; },
                            "nearest: expected targets (n, d), n > 0 and d > 0, got (7)"},
                           {[] {
                              NearestIndex{sample({0, 4})};
                            },
                            "nearest: expected targets (n, d), n > 0 and d > 0, got (0, 4)"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.links = 1});
                            },
                            "nearest: expected 2 <= links <= 256, got 1"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.build_width = 0});
                            },
                            "nearest: expected build_width > 0, got 0"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.search_width = -1});
                            },
                            "nearest: expected search_width > 0, got -1"},
                           {[&] {
                              index.search(sample({2, 3}), 1);
                            },
                            "nearest: expected queries (4) or (q, 4), got (2, 3)"},
                           {[&] {
                              index.search(sample({2, 4}), 8);
                            },
                            "nearest: expected 0 < k <= 7, got 8"},
                           {[&] {
                              index.search(sample({2, 4}, 1, Type::f64), 2);
                            },
                            "nearest: expected tensors of one type, got f64 and f32"}};
  if (index.is_approximate()) {
    rows.push_back({[&] { NearestIndex{holed}; },
                    "nearest: expected finite numbers (of cosines, also rows of a length > 0), got "
                    "inf in target 1"});
    rows.push_back({[&] {
                      index.search(tensor({1, 2, 3, kInfinity}, {4}), 2);
                    },
                    "nearest: expected finite numbers (of cosines, also rows of a length > 0), got "
                    "inf in query 0"});
  }
  for (const Row& row : rows) EXPECT_EQ(message(row.call), row.expected);
  // All are compared; NaN comes last.
  const Nearest found = NearestIndex(holed, {.exact = true}).search(tensor({5, 6}, {2}), 3);
  EXPECT_EQ(found.indices.values(), (std::vector<double>{2, 0, 1}));
  EXPECT_EQ(found.distances.values()[2], kInfinity);
}

}  // namespace
}  // namespace topograd::ops::test
