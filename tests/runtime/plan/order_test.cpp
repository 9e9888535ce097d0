// Locality orders of grids, hubs and models that are already in order.
#include "../../../runtime/order/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace topograd::runtime {
namespace {

/// Edges of a W x W grid of blocks of three scalars, vertices and edges permuted by `seed` (0: not
/// permuted).
struct Grid {
  ir::Topology topology;
  ir::Batch batch{6, 0, 1};
  Model model;
};

std::unique_ptr<Grid> grid(std::uint32_t width, unsigned seed, bool hub = false) {
  auto g = std::make_unique<Grid>();
  const std::uint32_t n = width * width;
  std::vector<std::uint32_t> name(n);
  std::iota(name.begin(), name.end(), 0u);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t k = 0; k < n; ++k) {
    if (k % width + 1 < width) edges.emplace_back(k, k + 1);
    if (k + width < n) edges.emplace_back(k, k + width);
    if (hub && k != 0) edges.emplace_back(k, 0);
  }
  if (seed != 0) {
    std::mt19937 random(seed);
    std::shuffle(name.begin(), name.end(), random);
    std::shuffle(edges.begin(), edges.end(), random);
  }
  for (const auto& [a, b] : edges) {
    const std::uint32_t indices[] = {3 * name[a], 3 * name[a] + 1, 3 * name[a] + 2,
                                     3 * name[b], 3 * name[b] + 1, 3 * name[b] + 2};
    const double data[] = {static_cast<double>(g->batch.size())};
    g->batch.append(indices, data, g->batch.size());
  }
  g->model.arrays = {{0, 3, n}};
  g->model.scalars = 3 * n;
  g->model.rows = g->batch.size();
  g->model.terms = {{&g->topology, &g->batch, "edge"}};
  return g;
}

double mean_distance(const ir::Batch& batch) {
  double sum = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    sum += std::abs(double(batch.index(i, 0)) - double(batch.index(i, 3))) / 3;
  }
  return sum / double(batch.size());
}

double mean_step(const ir::Batch& batch) {
  double sum = 0;
  for (std::size_t i = 1; i < batch.size(); ++i) {
    sum += std::abs(double(batch.index(i, 0)) - double(batch.index(i - 1, 0))) / 3;
  }
  return sum / double(batch.size());
}

TEST(Order, LeavesSortedAndSmallModelsAlone) {
  EXPECT_TRUE(find_order(grid(200, 0)->model).identity());
  EXPECT_TRUE(find_order(grid(20, 1)->model).identity());
}

TEST(Order, AFewScatteredInstancesDoNotMakeASortedModelShuffled) {
  const auto g = grid(200, 0);
  ir::Batch anchors(3, 0, 0);
  for (const std::uint32_t corner : {0u, 199u, 39800u, 39999u}) {
    const std::uint32_t indices[] = {3 * corner, 3 * corner + 1, 3 * corner + 2};
    anchors.append(indices, {}, g->batch.size() + 3 * anchors.size());
  }
  g->model.terms.push_back({&g->topology, &anchors, "anchor"});
  EXPECT_TRUE(find_order(g->model).identity());
}

TEST(Order, BringsAShuffledGridTogether) {
  const auto g = grid(200, 1);
  ModelOrder order = find_order(g->model);
  ASSERT_FALSE(order.identity());
  const OrderedModel ordered = reorder(g->model, order);
  EXPECT_GT(mean_distance(g->batch), 10000);
  EXPECT_LT(mean_distance(*ordered.batches[0]), 2 * 200);
  EXPECT_LT(mean_step(*ordered.batches[0]), 2 * 200);
}

TEST(Order, RowsOfOneBlockAreInTheOrderOfTheirOtherBlock) {
  const auto g = grid(200, 2);
  ModelOrder order = find_order(g->model);
  const OrderedModel ordered = reorder(g->model, order);
  const ir::Batch& batch = *ordered.batches[0];
  const auto ends = [&](std::size_t i) {
    return std::minmax({batch.index(i, 0), batch.index(i, 3)});
  };
  std::size_t equal = 0;
  for (std::size_t i = 1; i < batch.size(); ++i) {
    ASSERT_LT(ends(i - 1), ends(i)) << i;
    equal += ends(i - 1).first == ends(i).first ? 1 : 0;
  }
  EXPECT_GT(equal, batch.size() / 4);
}

TEST(Order, IsAPermutationThatKeepsBlocksAndRows) {
  const auto g = grid(200, 3);
  ModelOrder order = find_order(g->model);
  std::vector<std::uint32_t> sorted = order.position;
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t k = 0; k < sorted.size(); ++k) ASSERT_EQ(sorted[k], k);
  const OrderedModel ordered = reorder(g->model, order);
  const ir::Batch& batch = *ordered.batches[0];
  ASSERT_EQ(batch.size(), g->batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::size_t from = order.rows[0][i];
    EXPECT_EQ(batch.residual_row(i), from);
    EXPECT_EQ(batch.data(i, 0), g->batch.data(from, 0));
    for (std::uint32_t k = 0; k < 6; ++k) {
      ASSERT_EQ(batch.index(i, k), order.position[g->batch.index(from, k)]);
      EXPECT_EQ(batch.index(i, k) % 3, k % 3);
    }
  }
  std::vector<double> x(g->model.scalars), there(x.size()), back(x.size());
  std::iota(x.begin(), x.end(), 0.0);
  order.apply(x, there);
  order.undo(there, back);
  EXPECT_EQ(back, x);
  EXPECT_EQ(find_order(g->model).position, order.position);
}

/// A vertex, its partner in another array, a neighbour and its partner, as for vertices with
/// rotations.
TEST(Order, ArraysThatGoTogetherAreOrderedTogether) {
  const auto g = grid(200, 7);
  const std::uint32_t n = g->model.arrays[0].blocks;
  ir::Batch paired{12, 0, 1};
  std::vector<std::uint32_t> indices(12);
  for (std::size_t i = 0; i < g->batch.size(); ++i) {
    for (std::uint32_t k = 0; k < 6; ++k) {
      indices[k] = g->batch.index(i, k);
      indices[6 + k] = indices[k] + 3 * n;
    }
    paired.append(indices, {}, i);
  }
  g->model.arrays.push_back({3 * n, 3, n});
  g->model.scalars *= 2;
  g->model.terms = {{&g->topology, &paired, "pair"}};
  const ModelOrder order = find_order(g->model);
  ASSERT_FALSE(order.identity());
  for (std::uint32_t k = 0; k < 3 * n; ++k)
    ASSERT_EQ(order.position[k] + 3 * n, order.position[k + 3 * n]) << k;
}

TEST(Order, AHubDoesNotHideTheGrid) {
  const auto g = grid(200, 5, true);
  const ModelOrder order = find_order(g->model);
  ASSERT_FALSE(order.identity());
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < g->batch.size(); ++i) {
    const double d = std::abs(double(order.position[g->batch.index(i, 0)]) -
                              double(order.position[g->batch.index(i, 3)])) /
                     3;
    if (d < 5000) sum += d, ++count;
  }
  EXPECT_LT(sum / double(count), 2000);
}

}  // namespace
}  // namespace topograd::runtime
