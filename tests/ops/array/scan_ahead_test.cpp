// Scans in one pass against plain loops. The software device limits loop iterations, so it runs on
// one thread here: workgroups then end in the order of their start and nobody waits.
#include "../guarded.hpp"

#include "../../../ops/array/reduce/scan_ahead.hpp"
#include "../../../ops/arrays.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

const int kOneThread = setenv("LP_NUM_THREADS", "1", 1);

class ScanAhead : public test::GuardedVulkanTest {
 protected:
  /// The device, or nothing if it does not use such scans.
  std::optional<Device> device() const {
    if (!device_) return {};
    const Device found = Device::vulkan();
    const LaunchLimits& limits = found.backend().limits();
    if ((limits.groups_progress || limits.occupied_by_few) && limits.subgroup_shuffle) return found;
    return {};
  }
};

template <class T>
std::vector<T> whole_numbers(std::uint64_t size) {
  std::mt19937 random(3);
  std::vector<T> out(size);
  for (T& v : out) v = static_cast<T>(random() % 16);
  return out;
}

/// True for equal values, or two NaN.
template <class T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// Expects both scans of `form` to equal sequential use of `combine`.
template <class T, class F>
void check(const Device& device, const FoldForm& form, T identity, const F& combine,
           const std::vector<T>& numbers) {
  const std::uint64_t size = numbers.size();
  const Array<T> x(numbers);
  for (const bool exclusive : {false, true}) {
    const Array<T> y(size);
    scan_ahead(device.backend(), form, x.untyped(), y.untyped(), exclusive);
    const std::vector<T> got = y.to_vector();
    T sum = identity;
    for (std::uint64_t i = 0; i < size; ++i) {
      const T next = combine(sum, numbers[i]);
      ASSERT_PRED2(same<T>, got[i], exclusive ? sum : next)
          << name(form.monoid.members[0]) << ", " << i << " of " << size
          << (exclusive ? ", exclusive" : "");
      sum = next;
    }
  }
}

template <class T>
void check_type(const Device& device) {
  const Type type = Array<T>(1).untyped().type;
  // A tile, tiles of subgroups of subgroups, and remainders beyond vectors.
  for (const std::uint64_t size : {4u, 5u, 1023u, 1025u, 8192u, 100'003u, 1'000'002u}) {
    const std::vector<T> numbers = whole_numbers<T>(size);
    const auto add = [](T a, T b) { return static_cast<T>(a + b); };
    check<T>(device, form_of(Reduction::sum, type), T{0}, add, numbers);
    // Expressions of integers are evaluated in f64.
    if (type != Type::f32 && !device.facts().float64) continue;
    // Not commutative, identity not 0: the last number that is not 0.
    const auto last = [](Value a, Value b) { return select(b == literal(0), a, b); };
    const Expression expression = Expression::of<2>("last", last);
    const auto last_of = [](T a, T b) { return b == T{0} ? a : b; };
    check<T>(device, form_of(expression, 0, type, most_words(3) - 4), T{0}, last_of, numbers);
  }
}

/// Extremes and products, with infinities and, from the middle on, NaN.
template <class T>
void check_others(const Device& device) {
  const Type type = Array<T>(1).untyped().type;
  using L = std::numeric_limits<T>;
  for (const std::uint64_t size : {1025u, 100'003u}) {
    std::vector<T> numbers = whole_numbers<T>(size), factors(size, T{1});
    for (std::uint64_t i = 0; i < size; i += 97) factors[i] = static_cast<T>(i % 2 == 0 ? -1 : 2);
    for (std::uint64_t i = 40 * 97; i < size; i += 97) factors[i] = static_cast<T>(-1);
    if constexpr (L::has_infinity) {
      numbers[size / 4] = L::infinity();
      numbers[size / 3] = -L::infinity();
      numbers[size / 2] = L::quiet_NaN();
    }
    const auto least = [](T a, T b) { return a != a || a < b ? a : b; };
    const auto most = [](T a, T b) { return a != a || a > b ? a : b; };
    const auto times = [](T a, T b) { return static_cast<T>(a * b); };
    const T low = L::has_infinity ? -L::infinity() : L::lowest();
    const T high = L::has_infinity ? L::infinity() : L::max();
    check<T>(device, form_of(Reduction::min, type), high, least, numbers);
    check<T>(device, form_of(Reduction::max, type), low, most, numbers);
    check<T>(device, form_of(Reduction::product, type), T{1}, times, factors);
  }
}

TEST_F(ScanAhead, EveryTypeAndSize) {
  if (!device()) GTEST_SKIP() << "scans go in two passes on this device";
  check_type<float>(*device());
  check_type<std::int32_t>(*device());
  check_type<std::uint32_t>(*device());
  if (device()->facts().float64) check_type<double>(*device());
}

TEST_F(ScanAhead, ExtremesAndProductsWithNaN) {
  if (!device()) GTEST_SKIP() << "scans go in two passes on this device";
  check_others<float>(*device());
  check_others<std::int32_t>(*device());
}

/// A result in the middle of shared memory.
TEST_F(ScanAhead, WritesItsResultAlone) {
  if (!device()) GTEST_SKIP() << "scans go in two passes on this device";
  constexpr std::uint64_t kSize = 100'003;
  const std::vector<float> numbers = whole_numbers<float>(kSize);
  const Array<float> x(numbers);
  Array<float> all = Array<float>::full(kSize + 16, 77).to(*device());
  scan_ahead(device()->backend(), form_of(Reduction::sum, Type::f32), x.untyped(),
             all.slice(8, kSize).untyped(), false);
  const std::vector<float> got = all.to_vector();
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(got[i] == 77 && got[kSize + 8 + i] == 77) << i;
  float sum = 0;
  for (std::uint64_t i = 0; i < kSize; ++i) ASSERT_EQ(got[8 + i], sum += numbers[i]) << i;
}

TEST_F(ScanAhead, TakesWhatLiesInVectors) {
  if (!device_) return;
  const Device device = Device::vulkan();
  const FoldForm form = form_of(Reduction::sum, Type::f32);
  const Slice x = make_slice(Type::f32, 1 << 23), y = make_slice(Type::f32, 1 << 23);
  Slice later = x;
  later.first = 1;
  later.size -= 1;
  EXPECT_EQ(scans_ahead(device.backend(), form, x, y), device.backend().limits().groups_progress);
  EXPECT_FALSE(scans_ahead(device.backend(), form, later, y));
}

}  // namespace
}  // namespace topograd::ops
