// Folds and scans of expressions, reductions of segments and histograms against plain loops, on one
// device.
#include "array_cases.hpp"

#include "array_tests.hpp"

#include "../../../ops/array/reduce/histogram.hpp"
#include "../../../ops/array/reduce/scan.hpp"
#include "../../../ops/array/reduce/segments.hpp"

#include <algorithm>

namespace topograd::ops::test {
namespace {

// Associative but not commutative, on numbers for which it is exact: the last element that is not
// 0. 0 is its identity.
Value last_of(const Value& a, const Value& b) { return select(b == literal(0), a, b); }

template <class T>
std::vector<T> with_zeros(std::uint64_t size, std::uint32_t seed) {
  std::vector<T> out = numbers<T>(size, seed);
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 3 != 1 || i % 7 > 4) out[i] = T{0};
  }
  return out;
}

template <class T>
void check_fold(const Device& device, std::uint64_t size) {
  const std::vector<T> a = with_zeros<T>(size, 21);
  const Array<T> x = misaligned(a, 3, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  std::vector<T> inclusive, exclusive;
  T last{0}, most{0};
  for (const T v : a) {
    exclusive.push_back(last);
    last = v == T{0} ? last : v;
    inclusive.push_back(last);
    most = std::max(most, v);
  }
  expect_same(inclusive, inclusive_scan(last_of, 0.0, x).to_vector(), "last so far " + what);
  expect_same(exclusive, exclusive_scan(last_of, 0.0, x).to_vector(), "last before " + what);
  EXPECT_EQ(reduce(last_of, 0.0, x).item(), last) << what;
  const auto larger = [](Value u, Value v) { return topograd::max(u, v); };
  EXPECT_EQ(reduce(larger, 0.0, x).item(), most) << what;
  for (const Reduction extreme : {Reduction::min, Reduction::max}) {
    std::vector<T> want = a;
    for (std::size_t i = 1; i < size; ++i)
      want[i] =
          extreme == Reduction::min ? std::min(want[i - 1], a[i]) : std::max(want[i - 1], a[i]);
    expect_same(want, inclusive_scan(x, extreme).to_vector(), "extreme so far " + what);
    expect_same(want, inclusive_scan(extreme, x).to_vector(), "extreme so far, first " + what);
  }
  // Signs and powers of two: exact in every type, and 0 wraps around early in integers.
  std::vector<T> factors(size, T{1}), powers(size);
  for (std::size_t i = 0; i < size; ++i) factors[i] = T(i % 97 == 5 ? (i % 2 == 0 ? 2 : 3) : 1);
  std::uint32_t wrapped = 1;
  for (std::size_t i = 0; i < size && i < 700; ++i) {
    wrapped *= static_cast<std::uint32_t>(factors[i]);
    powers[i] = static_cast<T>(wrapped);
  }
  const std::uint64_t some = std::min<std::uint64_t>(size, 700);
  const Array<T> y = misaligned(factors, 1, device).slice(0, some);
  powers.resize(some);
  expect_same(powers, inclusive_scan(y, Reduction::product).to_vector(), "products " + what);
  EXPECT_EQ(product(y).item(), some == 0 ? T{1} : powers.back()) << what;
}

/// Starts of segments: many short ones, some up to 1,100, empty ones, and a long one.
std::vector<std::uint32_t> starts_of(std::uint64_t size) {
  std::vector<std::uint32_t> out = {0};
  std::mt19937 random(5);
  const auto end = static_cast<std::uint32_t>(size);
  while (out.back() < end / 3)
    out.push_back(std::min(end, out.back() + static_cast<std::uint32_t>(random() % 90)));
  while (out.back() < end / 2)
    out.push_back(std::min(end, out.back() + static_cast<std::uint32_t>(random() % 1100)));
  out.push_back(out.back());
  out.push_back(std::max(out.back(), end - end / 10));
  out.push_back(end);
  out.push_back(end);
  return out;
}

template <class T>
void check_segment(const Device& device, std::uint64_t size) {
  const std::vector<T> a = numbers<T>(size, 31), b = with_zeros<T>(size, 32);
  const std::vector<std::uint32_t> at = starts_of(size);
  const Array<T> x = misaligned(a, 1, device), y = misaligned(b, 2, device);
  const Array<std::uint32_t> starts = misaligned(at, 3, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  const std::vector<T> sums = segmented_reduce(Reduction::sum, x, starts).to_vector();
  const std::vector<T> least = segmented_reduce(Reduction::min, x, starts).to_vector();
  const std::vector<std::uint32_t> places =
      segmented_place(Reduction::argmax, x, starts).to_vector();
  const std::vector<T> last = segmented_reduce(last_of, 0.0, y, starts).to_vector();
  ASSERT_EQ(sums.size(), at.size() - 1);
  using L = std::numeric_limits<T>;
  for (std::size_t s = 0; s + 1 < at.size(); ++s) {
    long double sum = 0;
    T smallest = L::has_infinity ? L::infinity() : L::max(), found{0};
    std::uint32_t place = ~0u;
    for (std::uint32_t i = at[s]; i < at[s + 1]; ++i) {
      sum += a[i];
      smallest = std::min(smallest, a[i]);
      if (place == ~0u || a[i] > a[place]) place = i;
      if (b[i] != T{0}) found = b[i];
    }
    const double n = at[s + 1] - at[s];
    if constexpr (std::is_floating_point_v<T>) {
      ASSERT_NEAR(double(sums[s]), double(sum), 4 * n * L::epsilon() * (8 + n / 4096)) << what;
    } else {
      ASSERT_EQ(sums[s], static_cast<T>(static_cast<std::int64_t>(sum))) << what << " " << s;
    }
    ASSERT_EQ(least[s], smallest) << what << " " << s;
    ASSERT_EQ(places[s], place) << what << " " << s;
    ASSERT_EQ(last[s], found) << what << " " << s;
  }
}

template <class T>
void check_bins(const Device& device, std::uint64_t size, const Bins& bins) {
  std::vector<T> a = numbers<T>(size, 41);
  if constexpr (std::is_floating_point_v<T>) {
    // Some are outside, and no difference is rounded.
    for (T& v : a) v = std::round(v * T(1280)) / T(1024);
    if (size > 40) {
      a[3] = std::numeric_limits<T>::quiet_NaN();
      a[5] = std::numeric_limits<T>::infinity();
      a[7] = static_cast<T>(bins.high);
      a[9] = static_cast<T>(bins.low);
    }
  }
  std::vector<std::uint32_t> want(bins.count);
  for (const T v : a) {
    // Edges are exact in every type, so that the first number above is exact.
    for (std::uint32_t k = 0; k < bins.count; ++k) {
      const double from = bins.low + (bins.high - bins.low) * k / bins.count;
      const double to = bins.low + (bins.high - bins.low) * (k + 1) / bins.count;
      if (v >= from && (v < to || (k + 1 == bins.count && v == to))) ++want[k];
    }
  }
  EXPECT_EQ(histogram(misaligned(a, 3, device), bins).to_vector(), want)
      << describe(device, name(type_of<T>()), size);
}

}  // namespace

void check_folds(const Device& device) {
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_fold<decltype(element)>(device, size);
  });
  // Numbers in the function are data.
  const Array<float> x = Array<float>({1, 2, 3}).to(device);
  for (const double c : {0.5, 0.25}) {
    const auto f = [c](Value a, Value b) { return a + b + c * a * b; };  // 1 + c x multiplies
    const float two = float(3 + 2 * c), three = float(two + 3 + 3 * c * two);
    expect_same<float>({1, two, three}, inclusive_scan(f, 0.0, x).to_vector(), "with a number");
  }
}

void check_segments(const Device& device) {
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_segment<decltype(element)>(device, size);
  });
  const Array<float> x = Array<float>({1, 2, 3, std::nanf("")}).to(device);
  const auto sums = [&](const Array<std::uint32_t>& starts) {
    return segmented_reduce(Reduction::sum, x, starts).to_vector();
  };
  expect_same<float>({0, 3, 0, 5}, sums({0, 0, 2, 1, 3}), "what falls is empty, and overlaps");
  expect_same<float>({6}, segmented_reduce(Reduction::product, x, {1, 3}).to_vector(), "product");
  expect_same<float>({std::nanf(""), 0}, sums({3, 9, 12}), "what is beyond ends");
  expect_same<std::uint32_t>({3}, segmented_place(Reduction::argmin, x, {1, 4}).to_vector(), "NaN");
}

void check_histograms(const Device& device) {
  for (const std::uint64_t size : sizes()) {
    check_bins<float>(device, size, {32, -4, 4});
    check_bins<double>(device, std::min<std::uint64_t>(size, 20'011), {1, -2, 3});
    check_bins<std::int32_t>(device, std::min<std::uint64_t>(size, 20'011), {8, -1000, 1000});
    check_bins<std::uint32_t>(device, std::min<std::uint64_t>(size, 20'011), {16, 0, 1024});
  }
  // More bins than the private ones of a workgroup.
  std::vector<std::uint32_t> want(10'000, 1);
  std::vector<float> x(10'000);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(x.size() - 1 - k) + 0.5f;
  EXPECT_EQ(histogram(Array<float>(x).to(device), {10'000, 0, 10'000}).to_vector(), want);
}

}  // namespace topograd::ops::test
