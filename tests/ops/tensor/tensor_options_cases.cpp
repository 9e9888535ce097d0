// Tensor operations with options: chosen device and statistics.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/tensors.hpp"

#include <functional>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

using runtime::hybrid::Reason;
using O = const OpOptions&;

struct OptionsCase {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Tensor(const std::vector<Tensor>& x, O o)> run;
};

using X = const std::vector<Tensor>&;

const std::vector<OptionsCase>& options_cases() {
  static const std::vector<double> kernel = {1, 2, 1, 0, 3, 0, 1, -1, 1};
  static const std::vector<OptionsCase> all = {
      {"sum", {{5, 7}}, [](X x, O o) { return sum(x[0], {1}, false, o); }},
      {"mean", {{5, 7}}, [](X x, O o) { return mean(x[0], {0}, true, o); }},
      {"max", {{5, 7}}, [](X x, O o) { return max(x[0], {}, false, o); }},
      {"min", {{5, 7}}, [](X x, O o) { return min(x[0], {-1}, false, o); }},
      {"variance", {{5, 7}}, [](X x, O o) { return variance(x[0], {1}, false, o); }},
      {"argmax", {{5, 7}}, [](X x, O o) { return argmax(x[0], 0, o); }},
      {"argmin", {{5, 7}}, [](X x, O o) { return argmin(x[0], -1, o); }},
      {"matmul", {{5, 7}, {7, 3}}, [](X x, O o) { return matmul(x[0], x[1], o); }},
      {"concat",
       {{5, 7}, {2, 7}},
       [](X x, O o) {
         return concat({x[0], x[1]}, 0, o);
       }},
      {"stack",
       {{5, 7}, {5, 7}},
       [](X x, O o) {
         return stack({x[0], x[1]}, 1, o);
       }},
      {"take", {{5, 7}, {3}}, [](X x, O o) { return take(x[0], x[1], 1, IndexCheck::none, o); }},
      {"embedding",
       {{5, 7}, {3}},
       [](X x, O o) { return embedding(x[0], x[1], IndexCheck::none, o); }},
      {"softmax", {{5, 7}}, [](X x, O o) { return softmax(x[0], 0, o); }},
      {"log_softmax", {{5, 7}}, [](X x, O o) { return log_softmax(x[0], -1, o); }},
      {"layer_norm", {{5, 7}}, [](X x, O o) { return layer_norm(x[0], 1e-4, o); }},
      {"layer_norm scaled",
       {{5, 7}, {7}, {7}},
       [](X x, O o) { return layer_norm(x[0], x[1], x[2], 1e-4, o); }},
      {"conv2d",
       {{1, 2, 6, 5}, {3, 2, 3, 3}},
       [](X x, O o) { return conv2d(x[0], x[1], {.padding = 1}, o); }},
      {"filter2d", {{6, 5}}, [](X x, O o) { return filter2d(x[0], kernel, 3, 3, nullptr, o); }},
      {"max_pool2d", {{6, 5}}, [](X x, O o) { return max_pool2d(x[0], 2, {}, o); }},
      {"avg_pool2d", {{6, 5}}, [](X x, O o) { return avg_pool2d(x[0], 2, {.stride = 1}, o); }},
      {"fft", {{3, 6, 2}}, [](X x, O o) { return fft(x[0], o); }},
      {"ifft", {{3, 6, 2}}, [](X x, O o) { return ifft(x[0], o); }},
      {"fft2", {{3, 6, 2}}, [](X x, O o) { return fft2(x[0], o); }},
      {"ifft2", {{3, 6, 2}}, [](X x, O o) { return ifft2(x[0], o); }},
      {"rfft", {{3, 6}}, [](X x, O o) { return rfft(x[0], o); }},
      {"irfft", {{3, 4, 2}}, [](X x, O o) { return irfft(x[0], 7, o); }},
      {"rfft2", {{3, 6}}, [](X x, O o) { return rfft2(x[0], o); }},
      {"irfft2", {{3, 4, 2}}, [](X x, O o) { return irfft2(x[0], 6, o); }},
      {"cosine_similarity",
       {{2, 7}, {5, 7}},
       [](X x, O o) { return cosine_similarity(x[0], x[1], o); }},
      {"top_k", {{5, 7}}, [](X x, O o) { return top_k(x[0], 3, o).values; }},
      {"mse_loss", {{5, 7}, {5, 7}}, [](X x, O o) { return mse_loss(x[0], x[1], o); }},
      {"mae_loss", {{5, 7}, {5, 7}}, [](X x, O o) { return mae_loss(x[0], x[1], o); }},
      {"huber_loss", {{5, 7}, {5, 7}}, [](X x, O o) { return huber_loss(x[0], x[1], 0.5, o); }},
      {"tukey_loss", {{5, 7}, {5, 7}}, [](X x, O o) { return tukey_loss(x[0], x[1], 2, o); }},
      {"binary_cross_entropy",
       {{5, 7}, {5, 7}},
       [](X x, O o) { return binary_cross_entropy(x[0], x[1], o); }},
      {"cross_entropy", {{5, 7}, {5, 7}}, [](X x, O o) { return cross_entropy(x[0], x[1], o); }},
      // Expressions take options when they are computed.
      {"an expression", {{5, 7}, {7}}, [](X x, O o) { return relu(x[0] + x[1]).evaluate(o); }},
      {"map", {{9}}, [](X x, O o) { return map([](Value v) { return v * v; }, x[0]).evaluate(o); }},
      {"a function of the user's",
       {{5, 7}, {7, 3}, {3}},
       [](X x, O o) { return with_options(o, [&] { return relu(matmul(x[0], x[1]) + x[2]); }); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> options_case_names() {
  std::vector<std::string> out;
  for (const OptionsCase& one : options_cases()) out.emplace_back(one.name);
  return out;
}

void check_options(const Device& device) {
  for (const OptionsCase& one : options_cases()) {
    std::vector<Tensor> x, placed;
    for (const Shape& shape : one.shapes) {
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
    expect_near(got, want, 1e-4, one.name);
    // On another device than the inputs'.
    const Tensor away = one.run(placed, {.device = Device::cpu(), .stats = &stats});
    EXPECT_EQ(stats.device, "cpu") << one.name;
    EXPECT_EQ(away.placed(), device) << one.name;
    expect_near(away, want, 1e-6, one.name);
  }
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
