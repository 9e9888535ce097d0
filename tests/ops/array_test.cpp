// Arrays on the CPU, and what they refuse.
#include "ops/array_tests.hpp"

#include <gtest/gtest.h>

#include <topograd/ops/map.hpp>
#include <topograd/ops/reduce.hpp>
#include <topograd/ops/scan.hpp>

#include <functional>

namespace topograd::ops {
namespace {

TEST(Arrays, MapEveryTypeAndSize) { test::check_maps(Device::cpu()); }
TEST(Arrays, MapForms) { test::check_map_forms(Device::cpu()); }
TEST(Arrays, ReduceEveryTypeAndSize) { test::check_reductions(Device::cpu()); }
TEST(Arrays, ReductionForms) { test::check_reduction_forms(Device::cpu()); }
TEST(Arrays, ScanEveryTypeAndSize) { test::check_scans(Device::cpu()); }
TEST(Arrays, GatherScatterCompact) { test::check_indices(Device::cpu()); }
TEST(Arrays, SortEveryTypeAndSize) { test::check_sorts(Device::cpu()); }
TEST(Arrays, RandomNumbers) { test::check_random(Device::cpu()); }

TEST(Arrays, SaysWhatDoesNotFit) {
  const Array<float> two({1, 2}), three({1, 2, 3});
  const Array<float> none;
  const struct {
    std::function<void()> call;
    ErrorCode code;
    const char* text;
  } rows[] = {
      {[&] { map([](Value a, Value b) { return a + b; }, two, three); }, ErrorCode::Shape,
       "map: expected 2 elements, got 3"},
      {[&] { dot(two, three); }, ErrorCode::Shape, "sum: expected 2 elements, got 3"},
      {[&] { ops::min(none); }, ErrorCode::Shape, "min: expected at least one element, got none"},
      {[&] { argmax(none); }, ErrorCode::Shape, "argmax: expected at least one element, got none"},
      {[&] { two.item(); }, ErrorCode::Shape, "item: expected 1 elements, got 2"},
      {[&] { three.slice(2, 2); }, ErrorCode::Shape,
       "slice: elements 2 + 2 do not lie in an array of 3"},
      {[&] {
         gather(three, Array<std::uint32_t>({0, 3}), IndexCheck::throws);
       },
       ErrorCode::InvalidArgument, "gather: index 1 is 3, expected below 3"},
      {[&] {
         Array<float> target({1, 2});
         scatter(three, Array<std::uint32_t>({0, 1, 9}), target, Combine::add, IndexCheck::throws);
       },
       ErrorCode::InvalidArgument, "scatter: index 2 is 9, expected below 2"},
      {[&] { inclusive_scan(two, Reduction::argmax); }, ErrorCode::InvalidArgument,
       "scan: expected sum, product, min or max, got argmax"},
      {[&] { map([](Value a) { return a > 0.0 ? a : -a; }, two); }, ErrorCode::Unsupported,
       "map: expected select(), got an if on a Value"},
  };
  for (const auto& row : rows) {
    try {
      row.call();
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << error.what();
      EXPECT_STREQ(error.what(), row.text);
    }
  }
}

}  // namespace
}  // namespace topograd::ops
