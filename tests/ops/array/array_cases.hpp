// Sizes, slices and numbers for tests of arrays, on the CPU and on a device.
#pragma once

#include <gtest/gtest.h>

#include "../../../ops/array/array.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace topograd::ops::test {

inline const std::vector<std::uint64_t>& sizes() {
  static const std::vector<std::uint64_t> all = {0, 1, 2, 31, 32, 33, 255, 256, 257, 1'000'003};
  return all;
}

/// Calls f(T{}) for each element type.
template <class F>
void for_types(const F& f) {
  f(float{});
  f(double{});
  f(std::int32_t{});
  f(std::uint32_t{});
}

/// Numbers of a type: small integers, or between -4 and 4.
template <class T>
std::vector<T> numbers(std::uint64_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<T> out(count);
  for (T& x : out) {
    if constexpr (std::is_floating_point_v<T>) {
      x = static_cast<T>(static_cast<double>(random()) / 0x20000000 - 4);
    } else {
      x = static_cast<T>(random() % 2000) - static_cast<T>(std::is_signed_v<T> ? 1000 : 0);
    }
  }
  return out;
}

/// The values as a slice that starts at element `first` of a larger array.
template <class T>
Array<T> misaligned(const std::vector<T>& values, std::uint64_t first, const Device& device) {
  std::vector<T> all(first + values.size() + 5, T{77});
  std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(first));
  return Array<T>(all).to(device).slice(first, values.size());
}

/// Expects equal values; NaN equals NaN.
template <class T>
void expect_same(const std::vector<T>& want, const std::vector<T>& got, const std::string& what,
                 double relative = 0) {
  ASSERT_EQ(want.size(), got.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double a = static_cast<double>(want[i]), b = static_cast<double>(got[i]);
    if (want[i] == got[i] || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::abs(a - b), relative * std::abs(a)) << what << " at " << i;
  }
}

inline std::string describe(const Device& device, std::string_view type, std::uint64_t size) {
  return device.name() + " " + std::string(type) + " " + std::to_string(size);
}

}  // namespace topograd::ops::test
