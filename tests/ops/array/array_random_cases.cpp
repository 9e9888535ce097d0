// Random numbers: published words, the same on every device, and their moments.
#include "array_cases.hpp"

#include "array_tests.hpp"

#include "../../../ops/array/random.hpp"
#include "../../../ops/array/reduce/reduce.hpp"

#include <stdexcept>

namespace topograd::ops::test {

void check_random(const Device& device) {
  const OpOptions there{.device = device};
  // Known answers of Random123 for philox4x32-10: counter and key of zeros, and of ones (whose
  // upper counter words this generator keeps at zero, so only the first row applies).
  const std::vector<std::uint32_t> zeros = random_words(4, 0, 0, there).to_vector();
  EXPECT_EQ(zeros,
            (std::vector<std::uint32_t>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  for (const std::uint64_t size : sizes()) {
    const std::uint64_t first = 4 * ((std::uint64_t{1} << 32) - 10);  // counters carry
    EXPECT_EQ(
        random_words(size, 0x123456789abcdefull, first, there).to_vector(),
        random_words(size, 0x123456789abcdefull, first, {.device = Device::cpu()}).to_vector())
        << size;
  }
  const std::vector<std::uint32_t> all = random_words(100, 7, 0, there).to_vector();
  const std::vector<std::uint32_t> tail = random_words(60, 7, 40, there).to_vector();
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 40));

  constexpr std::uint64_t kFew = 1003;
  const auto first = random_words(kFew, 9, 8, there).to_vector();
  const auto second = random_words(kFew, 9, 8, there, kAngles).to_vector();
  const auto narrow = random_uniform<float>(kFew, 9, 8, there).to_vector();
  const auto wide = random_uniform<double>(kFew, 9, 8, there).to_vector();
  const auto normal = random_normal<float>(kFew, 9, 8, there).to_vector();
  for (std::size_t i = 0; i < kFew; ++i) {
    EXPECT_EQ(narrow[i], static_cast<float>(first[i] >> 8) * 0x1p-24f);
    EXPECT_EQ(wide[i], first[i] * 0x1p-32);
    const double want = std::sqrt(-2 * std::log((first[i] + 1.0) * 0x1p-32)) *
                        std::cos(second[i] * 0x1.921fb54442d18p-30);
    EXPECT_NEAR(normal[i], want, 1e-6 * std::abs(want)) << i;
  }

  // No other seed has the same words, with radii and angles in either role.
  const auto swapped = random_normal<float>(kFew, 9 ^ 0x9e3779b97f4a7c15ull, 8, there).to_vector();
  const auto others = random_words(kFew, 9 ^ 0x9e3779b97f4a7c15ull, 8, there).to_vector();
  EXPECT_NE(others, second);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < kFew; ++i) equal += swapped[i] == normal[i] ? 1 : 0;
  EXPECT_LE(equal, 1u);
  EXPECT_EQ(random_words(kFew, 9, 8, {.device = Device::cpu()}, kAngles).to_vector(), second);

  // From an unaligned place, with a remainder.
  Array<float> part(kFew + 8);
  for (const std::uint64_t begin : {1u, 4u}) {
    const Array<float> slice = part.slice(begin, kFew);
    random_normal_into(slice.untyped(), 9, 8, there);
    EXPECT_EQ(slice.to_vector(), normal) << begin;
    random_uniform_into(slice.untyped(), 9, 8, there);
    EXPECT_EQ(slice.to_vector(), narrow) << begin;
  }

  constexpr std::uint64_t kCount = 400'000;
  const double n = kCount;
  const Array<float> u = random_uniform<float>(kCount, 3, 0, there);
  EXPECT_NEAR(sum(u, there).item() / n, 0.5, 5 / std::sqrt(12 * n));
  EXPECT_GE(ops::min(u, there).item(), 0.0f);
  EXPECT_LT(ops::max(u, there).item(), 1.0f);
  const std::vector<double> x = random_normal<double>(kCount, 4, 0, there).to_vector();
  double mean = 0, square = 0, fourth = 0;
  for (const double v : x) {
    mean += v / n;
    square += v * v / n;
    fourth += v * v * v * v / n;
  }
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / n));
  EXPECT_THROW(random_words(4, 0, 2, there), Error);
}

}  // namespace topograd::ops::test
