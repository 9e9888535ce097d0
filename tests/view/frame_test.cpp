// Frames: grids, differences, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "../../ir/error.hpp"
#include "../../view/live/frame.hpp"

namespace topograd::test {
namespace {

using view::Frame;
using view::Grid;
using view::Quantised;

Frame random_frame(std::size_t points, std::uint64_t number, bool colors) {
  std::mt19937_64 random(number);
  std::uniform_real_distribution<double> anywhere(-3, 5);
  Frame frame{.number = number};
  for (std::size_t k = 0; k < 3 * points; ++k) frame.positions.push_back(anywhere(random));
  if (!colors) return frame;
  for (std::size_t k = 0; k < points; ++k) frame.values.push_back(anywhere(random));
  frame.low = -3;
  frame.high = 5;
  return frame;
}

TEST(Frames, PositionsAreWithinHalfAStep) {
  const Frame frame = random_frame(1000, 1, false);
  const Quantised q = view::quantise(frame, view::grid_for(frame.positions));
  EXPECT_LT(q.grid.step, 3.0 * 8 / 65000);
  for (std::size_t k = 0; k < frame.positions.size(); ++k)
    ASSERT_LE(std::abs(q.grid.origin[k % 3] + q.grid.step * q.cells[k] - frame.positions[k]),
              0.5001 * q.grid.step);
}

TEST(Frames, GridsChangeOnlyWhenPointsLeave) {
  Frame frame = random_frame(100, 2, false);
  const Grid grid = view::grid_for(frame.positions);
  frame.positions[0] += 7;  // the grid has room for the size of the start on each side
  EXPECT_EQ(view::quantise(frame, grid).grid, grid);
  frame.positions[0] += 100;
  EXPECT_NE(view::quantise(frame, grid).grid, grid);
  frame.positions[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(view::quantise(frame, grid).cells[1], 0);
}

TEST(Frames, EncodedOnesAreDecoded) {
  for (const std::size_t points : {0, 1, 63, 64, 65, 1000}) {
    for (const bool colors : {false, true}) {
      Frame frame = random_frame(points, 3, colors);
      const Grid grid = view::grid_for(frame.positions);
      const Quantised first = view::quantise(frame, grid);
      const std::string whole = view::encode(first, nullptr);
      const Quantised read = view::decode(whole, points, grid, nullptr);
      EXPECT_EQ(read.cells, first.cells) << points;
      EXPECT_EQ(read.colors, first.colors) << points;
      if (points == 0) continue;
      // One point far away, one near, a block that stays; colours change where they change.
      frame.positions[0] += 3;
      frame.positions.back() += 3 * grid.step;
      if (colors) frame.values.back() = -3;
      const Quantised second = view::quantise(frame, grid);
      const std::string change = view::encode(second, &first);
      const Quantised now = view::decode(change, points, grid, &first);
      EXPECT_EQ(now.cells, second.cells) << points;
      EXPECT_EQ(now.colors, second.colors) << points;
      if (points == 1000) {
        EXPECT_LT(change.size(), 16u + 6 * 64 + 3 * 64 + (colors ? 64 : 0));
      }
    }
  }
}

TEST(Frames, WhatDoesNotFitIsRefused) {
  const Frame frame = random_frame(100, 4, true);
  const Grid grid = view::grid_for(frame.positions);
  const Quantised q = view::quantise(frame, grid);
  const std::string good = view::encode(q, nullptr);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(view::decode(good.substr(0, size), 100, grid, nullptr), Error) << size;
  EXPECT_THROW(view::decode(good + "x", 100, grid, nullptr), Error);
  EXPECT_THROW(view::decode(good, 99, grid, &q), Error);
  EXPECT_THROW(view::decode(good, 100, {.origin = {}, .step = 1}, &q), Error);
}

}  // namespace
}  // namespace topograd::test
