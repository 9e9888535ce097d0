// Maps and reductions against plain loops, on one device.
#include "array_cases.hpp"

#include "array_tests.hpp"

#include "../../../ops/array/map.hpp"
#include "../../../ops/array/reduce/reduce.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace topograd::ops::test {
namespace {

template <class T>
void check_map(const Device& device, std::uint64_t size) {
  const std::vector<T> a = numbers<T>(size, 1), b = numbers<T>(size, 2);
  std::vector<T> want(size);
  for (std::size_t i = 0; i < size; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      want[i] = (a[i] * b[i] + T(0.5)) * T(2);
    } else {
      want[i] = static_cast<T>(std::clamp<double>(
          std::trunc((double(a[i]) * double(b[i]) + 0.5) * 2.0),
          double(std::numeric_limits<T>::min()), double(std::numeric_limits<T>::max())));
    }
  }
  const std::string what = describe(device, name(type_of<T>()), size);
  const Array<T> x = misaligned(a, 3, device), y = misaligned(b, 1, device);
  const auto f = [](Value u, Value v) { return (u * v + 0.5) * 2.0; };
  expect_same(want, map(f, x, y).to_vector(), "map " + what);
  expect_same(want, zip(f, x, y).to_vector(), "zip " + what);
  EXPECT_EQ(x.slice(0, 0).size(), 0u);
}

template <class T>
void check_reduce(const Device& device, std::uint64_t size) {
  const std::vector<T> a = numbers<T>(size, 3), b = numbers<T>(size, 4);
  const Array<T> x = misaligned(a, 1, device), y = misaligned(b, 2, device);
  const std::string what = describe(device, name(type_of<T>()), size);
  long double exact = 0, products = 0, absolute = 0, terms = 0, squares = 0;
  for (std::size_t i = 0; i < size; ++i) {
    exact += a[i];
    products += static_cast<long double>(a[i]) * b[i];
    terms += std::abs(static_cast<long double>(a[i]) * b[i]);
    absolute += std::abs(static_cast<long double>(a[i]));
    squares += static_cast<long double>(a[i]) * a[i];
  }
  if constexpr (std::is_floating_point_v<T>) {
    const double ulp = std::numeric_limits<T>::epsilon();
    const double steps = std::log2(size + 1.0) + size / 65536.0;  // as reduce.hpp says
    const auto bound = [&](long double of) { return double(of) * ulp * steps; };
    EXPECT_NEAR(double(sum(x).item()), double(exact), bound(absolute)) << what;
    EXPECT_NEAR(double(dot(x, y).item()), double(products), bound(terms)) << what;
    EXPECT_NEAR(double(norm(x).item()), std::sqrt(double(squares)), bound(std::sqrt(squares)))
        << what;
    EXPECT_NEAR(double(compensated_sum(x).item()), double(exact),
                ulp * std::abs(double(exact)) + ulp * ulp * double(size) * double(absolute))
        << what;
  } else {
    EXPECT_EQ(sum(x).item(), static_cast<T>(static_cast<std::int64_t>(exact))) << what;
    EXPECT_EQ(dot(x, y).item(), static_cast<T>(static_cast<std::int64_t>(products))) << what;
  }
  if (size == 0) return;
  const auto least = std::ranges::min_element(a), most = std::ranges::max_element(a);
  EXPECT_EQ(ops::min(x).item(), *least) << what;
  EXPECT_EQ(ops::max(x).item(), *most) << what;
  EXPECT_EQ(argmin(x).item(), least - a.begin()) << what;
  EXPECT_EQ(argmax(x).item(), most - a.begin()) << what;
}

}  // namespace

void check_maps(const Device& device) {
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_map<decltype(element)>(device, size);
  });
}

void check_map_forms(const Device& device) {
  const Array<float> x = Array<float>({1, 2, 3}).to(device), one = Array<float>({10}).to(device);
  expect_same<float>({11, 12, 13}, map([](Value a, Value b) { return a + b; }, x, one).to_vector(),
                     "one for all");
  const auto both = map([](Value a) { return std::array{a + 1.0, a * a}; }, x);
  expect_same<float>({2, 3, 4}, both[0].to_vector(), "first of two");
  expect_same<float>({1, 4, 9}, both[1].to_vector(), "second of two");
  const auto half =
      map_to<double>([](Value a) { return a / 2.0; }, Array<std::int32_t>({3, -5}).to(device));
  expect_same<double>({1.5, -2.5}, half.to_vector(), "to double");
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Array<double> odd = Array<double>({nan, inf, -inf, 3e9, -3e9, -1.7, 1.7}).to(device);
  const auto same = [](Value a) { return a + 0.0; };
  expect_same<std::int32_t>({0, 2147483647, -2147483647 - 1, 2147483647, -2147483647 - 1, -1, 1},
                            map_to<std::int32_t>(same, odd).to_vector(), "to int");
  expect_same<std::uint32_t>({0, 4294967295u, 0, 3000000000u, 0, 0, 1},
                             map_to<std::uint32_t>(same, odd).to_vector(), "to unsigned");
  // Digits of 6 items in base (2, 3): a transposed matrix times a row.
  const Array<float> matrix = Array<float>({0, 1, 2, 3, 4, 5}).to(device);
  const Array<float> out(6);
  const Expression f = Expression::of<2>("map", [](Value a, Value b) { return a * 10.0 + b; });
  const MapInput inputs[] = {{matrix.untyped(), {1, 2}}, {x.untyped(), {0, 1}}};
  map_into(f, inputs, {&out.untyped(), 1}, {{2, 3}}, {});
  expect_same<float>({1, 22, 43, 11, 32, 53}, out.to_vector(), "strided");
  // Other numbers in the expression are the same kernel.
  const std::uint64_t compiled = device.backend().counters().compiled;
  for (const double c : {2.0, 3.0, 4.0})
    EXPECT_EQ(map([c](Value a) { return a * c + 1.0; }, x).read()[2], float(3 * c + 1));
  EXPECT_LE(device.backend().counters().compiled - compiled, 1u);
}

void check_reductions(const Device& device) {
  for_types([&](auto element) {
    for (const std::uint64_t size : sizes()) check_reduce<decltype(element)>(device, size);
  });
}

void check_reduction_forms(const Device& device) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Array<float> x = Array<float>({1, nan, 7, nan, -inf}).to(device);
  EXPECT_TRUE(std::isnan(ops::min(x).item()));
  EXPECT_TRUE(std::isnan(ops::max(x).item()));
  EXPECT_TRUE(std::isnan(sum(x).item()));
  EXPECT_EQ(argmin(x).item(), 1u);
  EXPECT_EQ(argmax(x).item(), 1u);
  const Array<float> infinite = Array<float>({inf, inf, 1}).to(device);
  EXPECT_EQ(compensated_sum(infinite).item(), inf);
  EXPECT_EQ(argmin(Array<float>({inf, inf}).to(device)).item(), 0u);
  // The CPU's pieces are 1,024 elements long: the best, an equal one and NaN are in later ones.
  std::vector<float> long_one(5000, 2.0f);
  long_one[2000] = long_one[3000] = 1;
  long_one[2100] = long_one[4999] = 3;
  EXPECT_EQ(argmin(Array<float>(long_one).to(device)).item(), 2000u);
  EXPECT_EQ(argmax(Array<float>(long_one).to(device)).item(), 2100u);
  long_one[4000] = long_one[4500] = nan;
  EXPECT_EQ(argmin(Array<float>(long_one).to(device)).item(), 4000u);
  EXPECT_EQ(argmax(Array<float>(long_one).to(device)).item(), 4000u);
  EXPECT_TRUE(std::isnan(max(Array<float>(long_one).to(device)).item()));
  EXPECT_EQ(argmin(Array<float>::full(5000, inf).to(device)).item(), 0u);
  const Array<double> wide = Array<double>({1e100, 1, -1e100}).to(device);
  EXPECT_EQ(compensated_sum(wide).item(), 1.0);
  EXPECT_EQ(product(Array<float>({2, 3, 4}).to(device)).item(), 24.0f);
  EXPECT_EQ(product(Array<float>().to(device)).item(), 1.0f);
  const std::vector<double> values = numbers<double>(10'000, 5);
  const Array<double> y = Array<double>(values).to(device);
  double most = 0, total = 0;
  for (const double v : values) {
    most = std::max(most, std::abs(v));
    total += v * v + 1;
  }
  const auto larger = [](Value a, Value b) { return topograd::max(a, b); };
  EXPECT_EQ(reduce(larger, 0.0, map([](Value a) { return topograd::abs(a); }, y)).item(), most);
  EXPECT_NEAR(map_reduce(
                  Reduction::sum, [](Value a) { return a * a + 1.0; }, y)
                  .item(),
              total, 1e-12 * total);
  EXPECT_EQ(map_reduce(
                Reduction::max, [](Value a) { return topograd::abs(a); }, y)
                .item(),
            most);
}

}  // namespace topograd::ops::test
