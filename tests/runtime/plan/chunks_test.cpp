// Chunks of unknowns.
#include "../../../runtime/model/chunks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::runtime {
namespace {

struct Row {
  std::string name;
  std::vector<ParameterArray> arrays;
  std::uint32_t size;  // blocks of a chunk, by hand: 16 · 2^k, the least with at most 1024 of them
  std::size_t chunks;  // each array rounded up
};

const std::vector<Row> kRows = {
    {"one block", {{0, 3, 1}}, 16, 1},
    {"two arrays", {{0, 3, 17}, {51, 2, 16}}, 16, 3},
    {"spot: positions and rotations", {{0, 3, 2930}, {8790, 3, 2930}}, 16, 184 + 184},
    {"just full", {{0, 1, 16384}}, 16, 1024},
    {"one more", {{0, 1, 16385}}, 32, 513},
    {"springs 1000", {{0, 3, 1'000'000}}, 1024, 977},
    {"an empty array", {{0, 3, 20}, {60, 4, 0}, {60, 1, 5}}, 16, 3},
};

TEST(Chunks, CoverAllBlocksInOrder) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const std::vector<Chunk> chunks = chunks_of(row.arrays);
    EXPECT_EQ(chunks.size(), row.chunks);
    std::uint32_t block = 0;
    std::uint64_t scalar = 0;
    for (const Chunk& chunk : chunks) {
      EXPECT_EQ(chunk.first_block, block);
      EXPECT_EQ(chunk.first, scalar);
      EXPECT_LE(chunk.end_block - chunk.first_block, row.size);
      block = chunk.end_block;
      scalar = chunk.end;
    }
    EXPECT_EQ(scalar,
              row.arrays.back().offset + row.arrays.back().width * row.arrays.back().blocks);
  }
}

TEST(Chunks, AreFoundByBlock) {
  const std::vector<ParameterArray> arrays = {{0, 3, 17}, {51, 2, 16}};
  const std::vector<Chunk> chunks = chunks_of(arrays);
  EXPECT_EQ(find_chunk(chunks, 0), 0U);
  EXPECT_EQ(find_chunk(chunks, 15), 0U);
  EXPECT_EQ(find_chunk(chunks, 16), 1U);
  EXPECT_EQ(find_chunk(chunks, 17), 2U);
  EXPECT_EQ(find_chunk(chunks, 32), 2U);
  EXPECT_EQ(find_chunk(chunks, 33), chunks.size());
  const std::vector<Chunk> some = {chunks[0], chunks[2]};  // a part has some of them
  EXPECT_EQ(find_chunk(some, 16), some.size());
}

}  // namespace
}  // namespace topograd::runtime
