// Memory in large pages: zeroed, aligned, counted, released.
#include "../../ir/batch/row_storage.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>

namespace topograd::test {
namespace {

TEST(Pages, AreZeroAlignedAndGivenBack) {
  const std::uint64_t before = platform::heap_bytes();
  const std::size_t sizes[] = {1, platform::kLargePage, platform::kLargePage + 1,
                               5 * platform::kLargePage};
  for (const std::size_t size : sizes) {
    ir::Pages pages(size);
    EXPECT_EQ(pages.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % platform::kLargePage, 0u);
    EXPECT_EQ(pages.data()[0], std::byte{0});
    EXPECT_EQ(pages.data()[size - 1], std::byte{0});
    pages.data()[size - 1] = std::byte{7};
    if (before > 0) {
      EXPECT_GE(platform::heap_bytes(), before + size);
    }
    const ir::Pages moved = std::move(pages);
    EXPECT_EQ(moved.data()[size - 1], std::byte{7});
    EXPECT_EQ(pages.size(), 0u);  // NOLINT: empty after the move
  }
  EXPECT_LT(platform::heap_bytes(), before + platform::kLargePage);
}

TEST(Pages, AVectorKeepsItsNumbersAsItGrows) {
  ir::PagedVector<std::uint32_t> numbers;
  constexpr std::uint32_t kCount = 5'000'000;  // from small pieces to several large pages
  for (std::uint32_t k = 0; k < kCount; ++k) numbers.push_back(k);
  for (std::uint32_t k = 0; k < kCount; ++k) ASSERT_EQ(numbers[k], k);
  numbers.resize(10);
  numbers.shrink_to_fit();
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0u), 45u);
}

}  // namespace
}  // namespace topograd::test
