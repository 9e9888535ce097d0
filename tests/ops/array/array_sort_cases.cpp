// Sorting against the standard library, on one device.
#include "array_cases.hpp"

#include "array_tests.hpp"

#include "../../../ops/array/sort/sort.hpp"

#include <algorithm>
#include <numeric>

namespace topograd::ops::test {
namespace {

template <class T>
void check_sort(const Device& device, std::uint64_t size) {
  std::vector<T> a = numbers<T>(size, 11);
  // Equal elements at a distance.
  for (std::size_t i = 0; i < size; i += 3) a[i] = a[i / 2];
  if (size > 20) {
    a[5] = std::numeric_limits<T>::max();
    a[7] = std::numeric_limits<T>::lowest();
  }
  const Array<T> x = misaligned(a, 3, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::uint32_t i, std::uint32_t k) { return a[i] < a[k]; });
  std::vector<T> sorted = a;
  std::ranges::sort(sorted);
  EXPECT_EQ(sort(x).to_vector(), sorted) << what;
  EXPECT_EQ(argsort(x).to_vector(), order) << what;
  const Array<T> own = misaligned(a, 1, device);
  sort_into(own.untyped(), own.untyped(), {});
  EXPECT_EQ(own.to_vector(), sorted) << what << " in its own place";
  const std::vector<float> values = numbers<float>(size, 12);
  std::vector<float> carried;
  for (const std::uint32_t i : order) carried.push_back(values[i]);
  const auto [keys, with] = sort_by_key(x, misaligned(values, 1, device));
  EXPECT_EQ(keys.to_vector(), sorted) << what;
  EXPECT_EQ(with.to_vector(), carried) << what;
}

}  // namespace

void check_sorts(const Device& device) {
  for (const std::uint64_t size : sizes()) {
    check_sort<std::uint32_t>(device, size);
    // Other types share its passes: more than one workgroup's part is enough.
    const std::uint64_t fewer = std::min<std::uint64_t>(size, 20'011);
    check_sort<float>(device, fewer);
    check_sort<double>(device, fewer);
    check_sort<std::int32_t>(device, fewer);
  }
  // Sizes around the limit of one workgroup.
  for (const std::uint64_t size : {1023, 1024, 1025, 2047, 2048, 2049}) {
    check_sort<double>(device, size);
    check_sort<float>(device, size);
  }
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Array<float> x = Array<float>({nan, inf, 0.0f, -nan, -0.0f, -inf, 1}).to(device);
  const std::vector<float> got = sort(x).to_vector();
  expect_same<float>({-inf, -0.0f, 0.0f, 1, inf, nan, nan}, got, "order of NaN");
  EXPECT_TRUE(std::signbit(got[1]) && !std::signbit(got[2]));
  EXPECT_EQ(argsort(x).to_vector(), (std::vector<std::uint32_t>{5, 4, 2, 6, 1, 0, 3}));
  const Array<double> keys = Array<double>({3, 1, 2, 1}).to(device);
  const auto [k, v] = sort_by_key(keys, Array<std::int32_t>({30, 10, 20, 11}).to(device));
  expect_same<double>({1, 1, 2, 3}, k.to_vector(), "keys");
  expect_same<std::int32_t>({10, 11, 20, 30}, v.to_vector(), "values");
}

}  // namespace topograd::ops::test
