// Tensor operations with options: chosen device and statistics.
#include "operation_cases.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/tensors.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

using runtime::hybrid::Reason;

/// Expressions take options when they are computed.
const std::vector<OperationCase>& expressions() {
  const auto shapes = [](std::int64_t n) { return std::vector<Shape>{{n, 7}, {7, 3}, {3}}; };
  static const std::vector<OperationCase> all = {
      {"an expression",
       shapes,
       [](const Tensors& x, O o) { return relu(x[2] + 1.0).evaluate(o); },
       {}},
      {"map",
       shapes,
       [](const Tensors& x, O o) { return map([](Value v) { return v * v; }, x[0]).evaluate(o); },
       {}},
      {"a function of the user's",
       shapes,
       [](const Tensors& x, O o) {
         return with_options(o, [&] { return relu(matmul(x[0], x[1]) + x[2]); });
       },
       {}},
  };
  return all;
}

void check_case(const OperationCase& one, const Device& device, const FunctionRow* row) {
  Tensors x, placed;
  for (const Shape& shape : one.shapes(5)) {
    x.push_back(sample(shape, static_cast<int>(x.size()) + 1));
    placed.push_back(x.back().to(device));
  }
  const std::vector<double> want = one.run(x, {.device = Device::cpu()}).values();
  ExecutionStats stats;
  const RecordOperations outer;
  const Tensor got = one.run(x, {.device = device, .stats = &stats});
  EXPECT_EQ(stats.device, device.name()) << one.name;
  EXPECT_EQ(stats.decision.reason, Reason::forced) << one.name;
  EXPECT_GT(stats.times.kernel, 0) << one.name;
  EXPECT_FALSE(got.placed()) << one.name << ": where it would have been";
  EXPECT_FALSE(outer.all().empty()) << one.name << ": recorded outside, too";
  if (row != nullptr) {
    EXPECT_TRUE(std::ranges::count(outer.all(), row->runs, &RanOperation::op) > 0)
        << one.name << ": expected " << name(row->runs) << " in its statistics";
  }
  expect_near(got, want, 1e-4, one.name);
  if (!device.is_cpu()) {
    const Tensor checked = one.run(x, {.device = device, .stats = &stats, .cross_check = true});
    EXPECT_GT(stats.checked, 0u) << one.name;
    expect_near(checked, want, 1e-6, std::string(one.name) + " checked");
    EXPECT_TRUE(one.run(placed, {.cross_check = true}).placed() == device) << one.name;
  }
  // On another device than the inputs'.
  const Tensor away = one.run(placed, {.device = Device::cpu(), .stats = &stats});
  EXPECT_EQ(stats.device, "cpu") << one.name;
  EXPECT_EQ(away.placed(), device) << one.name;
  expect_near(away, want, 1e-6, one.name);
}

}  // namespace

void check_options(const Device& device) {
  for (const OperationCase& one : operation_cases())
    if (one.least <= 5) check_case(one, device, one.row());
  for (const OperationCase& one : expressions()) check_case(one, device, nullptr);
  // Statistics include all work of one call, or nothing if none ran.
  const Tensor a = sample({40, 24}), b = sample({24, 30}, 2);
  RecordOperations record;
  ExecutionStats stats;
  const Tensor y = softmax(matmul(a, b) * 2.0, -1, {.device = device, .stats = &stats});
  double kernels = 0;
  ASSERT_GE(record.all().size(), 3u) << "the product, the expression, the rows";
  for (const RanOperation& ran : record.all()) kernels += ran.stats.times.kernel;
  y.evaluate({.device = device, .stats = &stats});
  EXPECT_EQ(stats.device, "") << "computed before";
  EXPECT_EQ(stats.times.total(), 0);
  EXPECT_GT(kernels, 0);
  // The values of each operation, and of the nodes of expressions.
  std::ostringstream shown;
  (sample({3}) * 2.0 + 1.0).evaluate({.device = device, .values = &shown});
  const std::string text = shown.str();
  EXPECT_EQ(text.find("map of 3\n  operand 0: "), 0u) << text;
  EXPECT_NE(text.find(" = mul "), std::string::npos) << text;
  EXPECT_NE(text.find("  result 0 on " + device.name() + ": "), std::string::npos) << text;
  // Derivatives pass through.
  Tensor w = sample({4, 3}).requires_grad();
  sum(square(matmul(sample({2, 4}), w, {.device = device})), {}, false, {.device = device})
      .backward();
  Tensor v = sample({4, 3}).requires_grad();
  sum(square(matmul(sample({2, 4}), v))).backward();
  expect_near(w.grad(), v.grad().values(), 1e-5, "derivatives");
  // Derivatives and their steps have options too.
  const auto check_forced = [&](const char* what) {
    EXPECT_EQ(stats.device, device.name()) << what;
    EXPECT_EQ(stats.decision.reason, Reason::forced) << what;
    EXPECT_GT(stats.times.kernel, 0) << what;
  };
  const OpOptions there{.device = device, .stats = &stats};
  w.zero_grad(), v.zero_grad();
  const Tensor u = sample({2, 4}), seed = sample({2, 3}, 3);
  matmul(u, w).backward(seed, there);
  check_forced("backward with a seed");
  sum(square(matmul(u, w))).backward(there);
  check_forced("backward");
  matmul(u, v).backward(seed);
  sum(square(matmul(u, v))).backward();
  expect_near(w.grad(), v.grad().values(), 1e-5, "derivatives by options");
  nn::Adam by_options({w}, {.rate = 0.1}), plain({v}, {.rate = 0.1});
  by_options.step(there);
  check_forced("step");
  plain.step();
  expect_near(w, v.values(), 1e-5, "a step by options");
}

}  // namespace topograd::ops::test
