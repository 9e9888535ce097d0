// Arrays on the CPU, and errors.
#include "array_tests.hpp"

#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../ops/arrays.hpp"
#include "../../../ops/tensors.hpp"

#include <functional>
#include <string>
#include <vector>

namespace topograd::ops {
namespace {

TEST(Arrays, FunctionsMayGiveABool) {
  const Array<float> x{1, 2, 3};
  EXPECT_EQ(map([](Value v) { return v > 1.5; }, x).to_vector(), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(map_to<std::int32_t>([](Value v) { return v > 1.5 && v < 2.5; }, x).to_vector(),
            (std::vector<std::int32_t>{0, 1, 0}));
}

/// Functions run twice before all else and must give the same: one call stands for all elements.
TEST(Arrays, FunctionsThatCountAreErrors) {
  const Array<float> x{1, 2, 3};
  const double y[] = {4, 5, 6, 7};
  std::size_t k = 0;
  const auto scaled = [&](Value v) { return v * y[k++]; };
  const auto structure = [&](Value v) { return v * literal(y[k++]); };
  const auto other = [&](Value v) { return k++ == 0 ? sin(v) : cos(v); };
  const auto two = [&](Value a, Value b) { return a + b * y[k++]; };
  const auto kept = [&](Value v) { return v > y[k++]; };
  const Tensor t = ones({3});
  const std::string numbers = "the number 4 and then 5";
  const struct {
    const char* name;
    std::function<void()> call;
    std::string got;
  } rows[] = {
      {"map", [&] { map(scaled, x); }, numbers},
      {"map", [&] { map(structure, x); }, numbers},
      {"map", [&] { map(other, x); }, "another expression the second time"},
      {"map", [&] { map_to<double>(scaled, x); }, numbers},
      {"map", [&] { map(scaled, t); }, numbers},
      {"zip", [&] { zip(two, x, x); }, numbers},
      {"reduce", [&] { reduce(two, 0, x); }, numbers},
      {"map_reduce", [&] { map_reduce(Reduction::sum, scaled, x); }, numbers},
      {"inclusive_scan", [&] { inclusive_scan(two, 0.0, x); }, numbers},
      {"exclusive_scan", [&] { exclusive_scan(two, 0.0, x); }, numbers},
      {"segmented_reduce",
       [&] {
         segmented_reduce(two, 0, x, Array<std::uint32_t>({0, 3}));
       },
       numbers},
      {"compact", [&] { compact(kept, x); }, numbers},
  };
  for (const auto& row : rows) {
    k = 0;
    try {
      row.call();
      ADD_FAILURE() << row.name << ": no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_EQ(std::string(error.what()),
                std::string(row.name) +
                    ": expected a callable that gives the same each time that it is called for an "
                    "element, got " +
                    row.got +
                    "; it runs once for all elements, so that what it counts or draws is the same "
                    "in all of them: give the numbers of the elements in another array or tensor, "
                    "which is another argument of the callable");
    }
  }
  // A count is allowed if the expression does not depend on it.
  int calls = 0;
  EXPECT_EQ(map([&](Value v) { return ++calls, v * 2.0; }, x).to_vector(),
            (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(calls, 2);
}

TEST(Arrays, MapEveryTypeAndSize) { test::check_maps(Device::cpu()); }
TEST(Arrays, MapForms) { test::check_map_forms(Device::cpu()); }
TEST(Arrays, ReduceEveryTypeAndSize) { test::check_reductions(Device::cpu()); }
TEST(Arrays, ReductionForms) { test::check_reduction_forms(Device::cpu()); }
TEST(Arrays, ScanEveryTypeAndSize) { test::check_scans(Device::cpu()); }
TEST(Arrays, GatherScatterCompact) { test::check_indices(Device::cpu()); }
TEST(Arrays, SortEveryTypeAndSize) { test::check_sorts(Device::cpu()); }
TEST(Arrays, FoldAndScanExpressions) { test::check_folds(Device::cpu()); }
TEST(Arrays, ReduceSegments) { test::check_segments(Device::cpu()); }
TEST(Arrays, Histograms) { test::check_histograms(Device::cpu()); }
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
      {[&] { zip([](Value a, Value b) { return a + b; }, two, three); }, ErrorCode::Shape,
       "zip: expected 2 elements, got 3"},
      {[&] { dot(two, three); }, ErrorCode::Shape, "dot: expected 2 elements, got 3"},
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
      {[&] {
         histogram(three, {0, 1, 2});
       },
       ErrorCode::InvalidArgument,
       "histogram: expected at least one bin between finite limits, got 0 from 1 to 2"},
      {[&] {
         histogram(three, {4, 2, 2});
       },
       ErrorCode::InvalidArgument,
       "histogram: expected at least one bin between finite limits, got 4 from 2 to 2"},
      {[&] {
         segmented_reduce(Reduction::sum, three, Array<std::uint32_t>({0, 4}), IndexCheck::throws);
       },
       ErrorCode::InvalidArgument, "segmented_reduce: start 1 is 4, expected between 0 and 3"},
      {[&] {
         segmented_reduce(Reduction::sum, three, Array<std::uint32_t>({2, 1}), IndexCheck::throws);
       },
       ErrorCode::InvalidArgument, "segmented_reduce: start 1 is 1, expected between 2 and 3"},
      {[&] { segmented_reduce(Reduction::sum, three, {}); }, ErrorCode::Shape,
       "segmented_reduce: expected at least one start, got none"},
      {[&] {
         segmented_reduce(Reduction::argmax, three, {0, 1});
       },
       ErrorCode::InvalidArgument, "segmented_reduce: expected results of type u32, got f32"},
      {[&] { map([](Value a) { return a > 0.0 ? a : -a; }, two); }, ErrorCode::Unsupported,
       "map: expected select(), got an if on a Value"},
      {[&] { map([](Value) { return literal(3.0); }, two); }, ErrorCode::NoParameters,
       "map: expected a result that depends on an argument, got constants"},
      {[] { Array<float>(-1); }, ErrorCode::InvalidArgument, "array: expected a size >= 0, got -1"},
      {[] { Array<float>::full(-7, 1); }, ErrorCode::InvalidArgument,
       "array: expected a size >= 0, got -7"},
      {[] { Array<float>(std::uint64_t{1} << 62); }, ErrorCode::OutOfHostMemory,
       "array: expected at most 2305843009213431807 elements of f32, got 4611686018427387904"},
      {[] { Array<double>(std::uint64_t{1} << 61); }, ErrorCode::OutOfHostMemory,
       "array: expected at most 1152921504606715903 elements of f64, got 2305843009213693952"},
      {[] { random_uniform<float>(std::uint64_t{1} << 62, 1); }, ErrorCode::OutOfHostMemory,
       "array: expected at most 2305843009213431807 elements of f32, got 4611686018427387904"},
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

TEST(Arrays, TypesAndMemoryThatDoNotFitWriteNothing) {
  const Array<float> x({3, 1, 2});
  const Array<double> wide({4, 5, 6});
  const Array<std::uint32_t> at({0, 1, 2});
  const Slice in = x.untyped(), other = wide.untyped(), index = at.untyped();
  const Expression add = Expression::of<2>("scan", [](Value a, Value b) { return a + b; });
  const Slice two[] = {in, other}, one = x.slice(0, 1).untyped();
  const struct {
    std::function<void()> call;
    const char* text;
  } rows[] = {
      {[&] { sort_into(in, other, {}); }, "sort: expected results of type f32, got f64"},
      {[&] { argsort_into(other, in, {}); }, "argsort: expected results of type u32, got f32"},
      {[&] { scan_into(Reduction::sum, in, other, false, {}); },
       "scan: expected results of type f32, got f64"},
      {[&] { fold_scan_into(add, 0, other, in, true, {}); },
       "scan: expected results of type f64, got f32"},
      {[&] { gather_into(in, index, other, IndexCheck::none, {}); },
       "gather: expected results of type f32, got f64"},
      {[&] { gather_into(in, other, in, IndexCheck::throws, {}); },
       "gather: expected indices of type u32, got f64"},
      {[&] { scatter_into(Combine::add, in, index, other, IndexCheck::none, {}); },
       "scatter: expected a target of type f32, got f64"},
      {[&] { scatter_into(Combine::add, in, in, in, IndexCheck::none, {}); },
       "scatter: expected indices of type u32, got f32"},
      {[&] {
         histogram_into(index, {3, 0, 1}, other, {});
       },
       "histogram: expected results of type u32, got f64"},
      {[&] { random_words_into(other, 1, 0, {}); },
       "random_words: expected results of type u32, got f64"},
      {[&] {
         reduce_into(Reduction::sum, Operand::product, {&in, 1}, one, false, {});
       },
       "dot: expected 2 arrays, got 1"},
      {[&] { reduce_into(Reduction::sum, Operand::element, {}, one, false, {}); },
       "sum: expected 1 arrays, got 0"},
      {[&] { reduce_into(Reduction::sum, Operand::product, two, one, false, {}); },
       "dot: expected elements of type f32, got f64"},
      {[&] {
         reduce_into(Reduction::argmax, Operand::element, {&in, 1}, one, false, {});
       },
       "argmax: expected a result of type u32, got f32"},
      {[&] { gather_into(in, index, in, IndexCheck::none, {}); },
       "gather: expected results apart from what is read, got the same memory"},
      {[&] { gather_into(index, index, index, IndexCheck::none, {}); },
       "gather: expected results apart from what is read, got the same memory"},
      {[&] { scatter_into(Combine::add, in, index, in, IndexCheck::none, {}); },
       "scatter: expected a target apart from what is read, got the same memory"},
      {[&] { compact_slice(in, other, {}); }, "compact: expected flags of type u32, got f64"},
  };
  for (const auto& row : rows) {
    try {
      row.call();
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
      EXPECT_STREQ(error.what(), row.text);
    }
    EXPECT_EQ(x.to_vector(), (std::vector<float>{3, 1, 2}));
    EXPECT_EQ(wide.to_vector(), (std::vector<double>{4, 5, 6}));
  }
}

TEST(Arrays, ErrorsWriteNothing) {
  Array<float> target({1, 2, 3});
  const Array<float> other({5, 6});
  const Expression twice = Expression::of<1>("map", [](Value v) { return v * 2.0; });
  const MapInput input{other.untyped(), {}};
  const std::function<void()> calls[] = {
      [&] {
        scatter(other, {0, 9}, target, Combine::store, IndexCheck::throws);
      },
      [&] {
        scatter(other, {0, 9}, target, Combine::add, IndexCheck::throws);
      },
      [&] {
        map_into(twice, {&input, 1}, {&target.untyped(), 1});
      },
      [&] { scan_into(Reduction::sum, other.untyped(), target.untyped(), false, {}); },
      [&] { sort_into(other.untyped(), target.untyped(), {}); },
      [&] {
        gather_into(other.untyped(), Array<std::uint32_t>({0, 1, 2}).untyped(), target.untyped(),
                    IndexCheck::throws, {});
      },
      [&] {
        Array<float> much(std::uint64_t{1} << 60), all(much.slice(0, 3));
        all.write();
      },
  };
  for (const auto& call : calls) {
    EXPECT_THROW(call(), Error);
    EXPECT_EQ(target.to_vector(), (std::vector<float>{1, 2, 3}));
  }
  try {
    Array<double>(std::uint64_t{1} << 59).write();
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfHostMemory);
    EXPECT_STREQ(error.what(), "array: no memory for 4611686018427387904 bytes on the host");
  }
}

}  // namespace
}  // namespace topograd::ops
