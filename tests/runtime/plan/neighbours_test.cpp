// Neighbour lists against those of a simple loop, on any number of threads.
#include "../../../runtime/order/order.hpp"

#include <gtest/gtest.h>

#include <tbb/task_arena.h>

#include <random>
#include <vector>

namespace topograd::runtime {
namespace {

using Lists = std::vector<std::vector<std::uint32_t>>;

/// Random instances of `width` blocks; block 7 takes part in each tenth.
TouchedBlocks random_term(std::size_t instances, std::size_t width, std::uint32_t blocks,
                          unsigned seed) {
  TouchedBlocks term;
  term.groups.resize(width);
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::uint32_t> any(0, blocks - 1);
  for (std::size_t i = 0; i < instances; ++i) {
    for (std::size_t k = 0; k < width; ++k)
      term.blocks.push_back(k == 0 && i % 10 == 0 ? 7 : any(random));
  }
  return term;
}

Lists one_loop(std::span<const TouchedBlocks> terms, std::uint32_t blocks) {
  Lists lists(blocks);
  for (const TouchedBlocks& t : terms) {
    for (std::size_t i = 0; i < t.instances(); ++i) {
      for (std::size_t a = 0; a < t.width(); ++a) {
        for (std::size_t b = 0; b < t.width(); ++b) {
          if (a != b) lists[t.of(i)[a]].push_back(t.of(i)[b]);
        }
      }
    }
  }
  return lists;
}

TEST(Neighbours, AreThoseOfOneLoopOnAnyNumberOfThreads) {
  for (const std::uint32_t blocks : {9u, 1000u, 100'003u}) {
    const std::vector<TouchedBlocks> terms = {
        random_term(60'000, 2, blocks, 1), {}, random_term(40'000, 4, blocks, 2)};
    const Lists expected = one_loop(terms, blocks);
    for (const int threads : {1, 2, 5}) {
      tbb::task_arena(threads).execute([&] {
        const Neighbours neighbours(terms, blocks);
        EXPECT_TRUE(neighbours.have_hubs());
        EXPECT_TRUE(neighbours.of(7).empty());
        for (std::uint32_t b = 0; b < blocks; ++b) {
          const auto got = neighbours.of(b);
          if (expected[b].size() > 512) {
            ASSERT_TRUE(got.empty()) << b;
          } else {
            ASSERT_EQ(std::vector(got.begin(), got.end()), expected[b]) << b;
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace topograd::runtime
