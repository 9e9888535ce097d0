// The pattern of symmetric block-sparse matrices, against one written by hand.
#include "../../../runtime/linear/block_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace topograd::test {
namespace {

using runtime::BlockRows;

// Blocks of 1, 2 and 3 scalars that begin at scalars 0, 4 and 7.
// Blocks 0 and 2 meet, and 1 and 2.
TEST(BlockRows, PlacesBlocksByRows) {
  const std::array<std::uint32_t, 3> width = {1, 2, 3}, first = {0, 4, 7};
  const std::vector<std::vector<std::uint32_t>> met = {{2}, {2}, {0, 1}};
  BlockRows rows(3);
  for (std::uint32_t row = 0; row < 3; ++row) {
    rows.add(row, row, width[row]);
    for (const std::uint32_t other : met[row]) rows.add(row, other, width[other]);
  }
  ASSERT_TRUE(rows.place([&](std::uint32_t block) { return width[block]; }));
  for (std::uint32_t row = 0; row < 3; ++row) {
    rows.list(row, first[row], width[row], [&](const auto& add) {
      for (const std::uint32_t other : met[row]) add(first[other], width[other]);
    });
  }
  EXPECT_EQ(rows.values(), 1u * 4 + 2u * 5 + 3u * 6);
  // Values, columns, length, diagonal.
  const std::vector<std::uint32_t> words = {0, 0, 4, 0, 4, 4, 5, 0, 14, 9, 6, 3};
  EXPECT_TRUE(std::ranges::equal(rows.words(), words));
  const std::vector<std::uint32_t> columns = {0, 7, 8, 9, 4, 5, 7, 8, 9, 0, 4, 5, 7, 8, 9};
  EXPECT_TRUE(std::ranges::equal(rows.columns(), columns));
  EXPECT_EQ(rows.location(0, 2), (std::array<std::uint32_t, 4>{1, 4, 14, 6}));
  EXPECT_EQ(rows.location(1, 2), (std::array<std::uint32_t, 4>{6, 5, 15, 6}));
  EXPECT_EQ(rows.location(1, 1), (std::array<std::uint32_t, 4>{4, 5, 4, 5}));
}

TEST(BlockRows, RefusesMoreNumbersThan32BitsCount) {
  BlockRows rows(2);
  for (std::uint32_t row = 0; row < 2; ++row) rows.add(row, row, 1u << 16);
  EXPECT_FALSE(rows.place([](std::uint32_t) { return 1u << 16; }));
}

}  // namespace
}  // namespace topograd::test
