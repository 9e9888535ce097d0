// Scans in one pass against plain loops. The software device leaves loops after some turns, so that
// it has one thread here, where workgroups end in the order in which they begin and nobody waits.
#include "support/validation.hpp"

#include <topograd/ops/arrays.hpp>
#include <topograd/ops/scan_ahead.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

namespace topograd::ops {
namespace {

const int kOneThread = setenv("LP_NUM_THREADS", "1", 1);

class ScanAhead : public topograd::test::VulkanTest {};

template <class T>
std::vector<T> whole_numbers(std::uint64_t size) {
  std::mt19937 random(3);
  std::vector<T> out(size);
  for (T& v : out) v = static_cast<T>(random() % 16);
  return out;
}

/// Both scans of `form` are what `combine` makes of the numbers one after the other.
template <class T, class F>
void check(const Device& device, const FoldForm& form, T identity, const F& combine,
           std::uint64_t size) {
  const std::vector<T> numbers = whole_numbers<T>(size);
  const Array<T> x(numbers);
  for (const bool exclusive : {false, true}) {
    const Array<T> y(size);
    scan_ahead(device.backend(), form, x.untyped(), y.untyped(), exclusive);
    const std::vector<T> got = y.to_vector();
    T sum = identity;
    for (std::uint64_t i = 0; i < size; ++i) {
      const T next = combine(sum, numbers[i]);
      ASSERT_EQ(got[i], exclusive ? sum : next)
          << name(form.monoid.members[0]) << ", " << i << " of " << size
          << (exclusive ? ", exclusive" : "");
      sum = next;
    }
  }
}

template <class T>
void check_type(const Device& device) {
  const Type type = Array<T>(1).untyped().type;
  // A tile, tiles of subgroups of subgroups, and what is left beyond vectors.
  for (const std::uint64_t size : {4u, 5u, 1023u, 1025u, 8192u, 100'003u, 1'000'002u}) {
    const auto add = [](T a, T b) { return static_cast<T>(a + b); };
    check<T>(device, form_of(Reduction::sum, type), T{0}, add, size);
    // Neither commutes nor starts with 0: the last number that is not 0.
    const auto last = [](Value a, Value b) { return select(b == literal(0), a, b); };
    const Expression expression = Expression::of<2>("last", last);
    const auto last_of = [](T a, T b) { return b == T{0} ? a : b; };
    check<T>(device, form_of(expression, 0, type, most_words(3) - 4), T{0}, last_of, size);
  }
}

TEST_F(ScanAhead, EveryTypeAndSize) {
  if (!device_) return;
  const Device device = Device::vulkan();
  const LaunchLimits& limits = device.backend().limits();
  if (!(limits.groups_progress || limits.software) || !limits.subgroup_shuffle)
    GTEST_SKIP() << "scans go in two passes on this device";
  check_type<float>(device);
  check_type<std::int32_t>(device);
  check_type<std::uint32_t>(device);
  if (limits.float64) check_type<double>(device);
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
