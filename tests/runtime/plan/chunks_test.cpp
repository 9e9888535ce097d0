// Chunks of unknowns.
#include "../../../runtime/model/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::runtime {
namespace {

struct Row {
  std::string name;
  std::vector<ParameterArray> arrays;
  std::uint64_t scalars;  // of the largest chunk, by hand: see blocks_per_chunk()
  std::size_t chunks;     // each array rounded up
};

const std::vector<Row> kRows = {
    {"one block", {{0, 3, 1}}, 3, 1},
    {"two arrays, of 8 blocks a chunk", {{0, 3, 17}, {51, 2, 16}}, 24, 3 + 2},
    {"spot, of 8: positions and rotations", {{0, 3, 2930}, {8790, 3, 2930}}, 24, 367 + 367},
    {"just full, of 16", {{0, 1, 65536}}, 16, 4096},
    {"one more, of 32", {{0, 1, 65537}}, 32, 2049},
    {"springs 1000, of 256", {{0, 3, 1'000'000}}, 768, 3907},
    {"cameras of 2, points of 512", {{0, 9, 1778}, {16002, 3, 993923}}, 1536, 889 + 1942},
    {"an empty array", {{0, 3, 20}, {60, 4, 0}, {60, 1, 5}}, 24, 3 + 1},
};

TEST(Chunks, CoverAllBlocksInOrder) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const std::vector<Chunk> chunks = chunks_of(row.arrays);
    EXPECT_EQ(chunks.size(), row.chunks);
    std::uint32_t block = 0;
    std::uint64_t scalar = 0, largest = 0;
    for (const Chunk& chunk : chunks) {
      EXPECT_EQ(chunk.first_block, block);
      EXPECT_EQ(chunk.first, scalar);
      largest = std::max(largest, chunk.end - chunk.first);
      block = chunk.end_block;
      scalar = chunk.end;
    }
    EXPECT_EQ(largest, row.scalars);
    EXPECT_EQ(scalar,
              row.arrays.back().offset + row.arrays.back().width * row.arrays.back().blocks);
  }
}

TEST(Chunks, AreFoundByBlock) {
  const std::vector<ParameterArray> arrays = {{0, 3, 9},
                                              {27, 2, 8}};  // chunks of 8, 1 and 8 blocks
  const std::vector<Chunk> chunks = chunks_of(arrays);
  EXPECT_EQ(find_chunk(chunks, 0), 0U);
  EXPECT_EQ(find_chunk(chunks, 7), 0U);
  EXPECT_EQ(find_chunk(chunks, 8), 1U);
  EXPECT_EQ(find_chunk(chunks, 9), 2U);
  EXPECT_EQ(find_chunk(chunks, 16), 2U);
  EXPECT_EQ(find_chunk(chunks, 17), chunks.size());
  const std::vector<Chunk> some = {chunks[0], chunks[2]};  // a part has some of them
  EXPECT_EQ(find_chunk(some, 8), some.size());
}

TEST(Chunks, AreFewUnlessThereAreManyArrays) {
  for (const std::size_t count : {1, 2, 3, 10, 1000, 5000}) {
    std::vector<ParameterArray> arrays;
    for (std::size_t k = 0; k < count; ++k) arrays.push_back({3000 * k, 3, 1000});
    EXPECT_LE(chunks_of(arrays).size(), std::max(kMostChunks, count)) << count;
  }
}

}  // namespace
}  // namespace topograd::runtime
