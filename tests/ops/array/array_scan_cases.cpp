// Scans, gather, scatter and compact against plain loops, on one device.
#include "array_cases.hpp"

#include "array_tests.hpp"

#include "../../../ops/array/reduce/scan.hpp"

#include <algorithm>

namespace topograd::ops::test {
namespace {

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, long double, std::uint64_t>;

template <class T>
void check_scan(const Device& device, std::uint64_t size) {
  const std::vector<T> a = numbers<T>(size, 7);
  const Array<T> x = misaligned(a, 3, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  std::vector<T> inclusive(size), exclusive(size);
  Wide<T> sum = 0;
  double absolute = 0;
  for (std::size_t i = 0; i < size; ++i) {
    exclusive[i] = static_cast<T>(sum);
    sum += static_cast<Wide<T>>(a[i]);
    absolute += std::abs(static_cast<double>(a[i]));
    inclusive[i] = static_cast<T>(sum);
  }
  const std::vector<T> got = inclusive_scan(x).to_vector(), before = exclusive_scan(x).to_vector();
  ASSERT_EQ(got.size(), size);
  const double ulp = std::is_floating_point_v<T> ? std::numeric_limits<T>::epsilon() : 0;
  // Partial sums of workgroups are added one after the other; on the CPU those of blocks.
  const double bound = ulp * absolute * (size < 300 ? 1 : 20);
  for (std::size_t i = 0; i < size; ++i) {
    ASSERT_NEAR(double(got[i]), double(inclusive[i]), bound) << what << " at " << i;
    ASSERT_NEAR(double(before[i]), double(exclusive[i]), bound) << what << " at " << i;
  }
}

template <class T>
void check_by_index(const Device& device, std::uint64_t size) {
  const std::vector<T> a = numbers<T>(size, 8);
  std::vector<std::uint32_t> at(size);
  std::mt19937 random(9);
  for (std::uint32_t& k : at)
    k = static_cast<std::uint32_t>(random() % (size + 1));  // one is out
                                                            // of range
  const Array<T> x = misaligned(a, 1, device);
  const Array<std::uint32_t> index = misaligned(at, 2, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  std::vector<T> gathered(size), added(size, T{1}), kept;
  for (std::size_t i = 0; i < size; ++i) {
    gathered[i] = at[i] < size ? a[at[i]] : T{0};
    if (at[i] < size) added[at[i]] = static_cast<T>(added[at[i]] + a[i]);
    if (a[i] > T{1}) kept.push_back(a[i]);
  }
  expect_same(gathered, gather(x, index).to_vector(), "gather " + what);
  Array<T> sums = misaligned(std::vector<T>(size, T{1}), 5, device);
  scatter(x, index, sums, Combine::add);
  const std::vector<T> got = sums.to_vector();
  for (std::size_t i = 0; i < size; ++i)
    ASSERT_NEAR(double(got[i]), double(added[i]),
                std::is_floating_point_v<T> ? 64 * std::numeric_limits<T>::epsilon() : 0)
        << "scatter " << what << " at " << i;
  const auto large = [](Value v) { return select(v > 1.0, literal(1), literal(0)); };
  expect_same(kept, compact(large, x).to_vector(), "compact " + what);
  expect_same(kept, compact([](Value v) { return v > 1.0; }, x).to_vector(),
              "compact by a Bool " + what);
  // Reversed: each index occurs once.
  std::vector<std::uint32_t> back(size);
  for (std::size_t i = 0; i < size; ++i) back[i] = static_cast<std::uint32_t>(size - 1 - i);
  Array<T> target = misaligned(std::vector<T>(size), 1, device);
  scatter(x, Array<std::uint32_t>(back), target);
  const std::vector<T> reversed(a.rbegin(), a.rend());
  expect_same(reversed, target.to_vector(), "scatter store " + what);
}

/// Scans of large arrays run in one pass, on devices that allow it.
void check_large_scan(const Device& device) {
  std::vector<std::uint32_t> a = numbers<std::uint32_t>(5'000'003, 13);
  const Array<std::uint32_t> x = Array<std::uint32_t>(a).to(device);
  const std::vector<std::uint32_t> before = exclusive_scan(x).to_vector();
  const std::vector<std::uint32_t> most = inclusive_scan(x, Reduction::max).to_vector();
  std::uint32_t sum = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(before[i], sum) << device.name() << " at " << i;
    sum += a[i];
    largest = std::max(largest, a[i]);
    ASSERT_EQ(most[i], largest) << device.name() << " at " << i;
  }
}

}  // namespace

void check_scans(const Device& device) {
  check_large_scan(device);
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_scan<decltype(element)>(device, size);
  });
  const float nan = std::nanf("");
  const Array<float> x = Array<float>({3, 1, nan, 5}).to(device);
  expect_same<float>({3, 1, nan, nan}, inclusive_scan(x, Reduction::min).to_vector(), "minimum");
  const Array<std::int32_t> y = Array<std::int32_t>({3, -1, 2, 5}).to(device);
  expect_same<std::int32_t>({std::numeric_limits<std::int32_t>::min(), 3, 3, 3},
                            exclusive_scan(y, Reduction::max).to_vector(), "maximum");
}

void check_indices(const Device& device) {
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_by_index<decltype(element)>(device, size);
  });
}

}  // namespace topograd::ops::test
