// Tensors against plain loops in double, on the CPU and on a device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../../../ops/tensor/tensor.hpp"

#include <functional>
#include <string>
#include <vector>

namespace topograd::ops::test {

/// Different numbers of both signs, up to about 2; the same in each call.
inline std::vector<double> numbers(std::int64_t count, int seed = 1) {
  std::vector<double> out;
  std::uint64_t state = static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t k = 0; k < count; ++k) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<double>(state >> 40) * 0x1p-22 - 2.0);
  }
  return out;
}

inline Tensor sample(const Shape& shape, int seed = 1, Type type = Type::f32) {
  return tensor(numbers(element_count(shape), seed), shape, type);
}

/// The tensor's numbers.
inline std::vector<double> held(const Tensor& t) { return t.to_cpu().values(); }

/// |got - want| <= bound * max(1, |want|); NaN where NaN is expected.
inline void expect_near(const Tensor& got, const std::vector<double>& want, double bound,
                        const std::string& what) {
  const std::vector<double> values = got.values();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t k = 0; k < want.size(); ++k) {
    if (std::isnan(want[k]) || std::isinf(want[k])) {
      EXPECT_TRUE(values[k] == want[k] || (std::isnan(want[k]) && std::isnan(values[k])))
          << what << " [" << k << "]: " << values[k] << ", want " << want[k];
      continue;
    }
    ASSERT_NEAR(values[k], want[k], bound * std::max(1.0, std::abs(want[k])))
        << what << " [" << k << "]";
  }
}

/// The message of the Error that `f` throws; empty if none.
inline std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace topograd::ops::test
