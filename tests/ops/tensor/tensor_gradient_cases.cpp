// Derivatives of every tensor operation: against central differences in f64, and of a device
// against the CPU.
#include "operation_cases.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/autograd.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <cmath>

namespace topograd::ops::test {
namespace {

struct Case {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const std::vector<Tensor>&)> f;
};

/// Σ w f(x) with different weights, so that every entry of the derivative counts.
Tensor weighted(const Case& c, const std::vector<Tensor>& x) {
  const Tensor y = c.f(x);
  return sum(y * sample(y.shape(), 99, Type::f64));
}

/// The tensors of a case with their derivatives by backward().
std::vector<Tensor> with_grads(const Case& c, const Device& device) {
  std::vector<Tensor> x;
  for (std::size_t k = 0; k < c.shapes.size(); ++k) {
    x.push_back(sample(c.shapes[k], static_cast<int>(k) + 1, Type::f64).to(device));
    x.back().requires_grad();
  }
  weighted(c, x).backward();
  return x;
}

void check_against_differences(const Case& c) {
  const std::vector<Tensor> x = with_grads(c, Device::cpu());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::vector<double> got = x[k].grad().values();
    const std::vector<double> at = x[k].values();
    const NoGrad guard;
    for (std::size_t i = 0; i < at.size(); ++i) {
      constexpr double kStep = 1e-5;
      double sides[2];
      for (const int side : {0, 1}) {
        std::vector<double> moved = at;
        moved[i] += side == 0 ? kStep : -kStep;
        std::vector<Tensor> y = x;
        y[k] = tensor(moved, c.shapes[k], Type::f64);
        sides[side] = weighted(c, y).item();
      }
      const double want = (sides[0] - sides[1]) / (2 * kStep);
      EXPECT_NEAR(got[i], want, 2e-7 * std::max(1.0, std::abs(want)))
          << c.name << ", tensor " << k << " [" << i << "]";
    }
  }
}

Case unary(const char* name, Tensor (*f)(const Tensor&)) {
  return {name, {{7}}, [f](const auto& x) { return f(x[0]); }};
}

/// Expressions, and operations whose derivatives depend on their arguments.
const std::vector<Case>& own_cases() {
  using X = const std::vector<Tensor>&;
  static const std::vector<Case> all = {
      unary("abs", abs),
      unary("square", square),
      unary("exp", exp),
      unary("sin", sin),
      unary("cos", cos),
      unary("tanh", tanh),
      unary("sigmoid", sigmoid),
      unary("relu", relu),
      unary("gelu", gelu),
      unary("silu", silu),
      unary("softplus", softplus),
      {"sqrt", {{5}}, [](X x) { return sqrt(square(x[0]) + 1.0); }},
      {"rsqrt", {{5}}, [](X x) { return rsqrt(square(x[0]) + 1.0); }},
      {"log", {{5}}, [](X x) { return log(square(x[0]) + 0.5); }},
      {"leaky_relu", {{5}}, [](X x) { return leaky_relu(x[0], 0.1); }},
      {"elu", {{5}}, [](X x) { return elu(x[0], 1.5); }},
      {"minimum", {{5}, {5}}, [](X x) { return minimum(x[0], x[1]); }},
      {"maximum", {{5}, {5}}, [](X x) { return maximum(x[0], x[1]); }},
      {"pow", {{5}, {5}}, [](X x) { return pow(square(x[0]) + 0.5, x[1]); }},
      {"pow of numbers", {{5}}, [](X x) { return pow(x[0], 3) + pow(square(x[0]) + 0.5, -1.5); }},
      {"clamp", {{9}}, [](X x) { return clamp(x[0], -0.3, 0.4) * x[0]; }},
      {"where", {{5}, {5}}, [](X x) { return where(less(x[0], x[1]), x[0] * x[1], exp(x[1])); }},
      {"broadcast", {{3, 1}, {4}}, [](X x) { return x[0] * x[1] + x[1] / (square(x[0]) + 1.0); }},
      {"map of as many tensors as there may be", std::vector<Shape>(8, {3}),
       [](X x) {
         return map(
             [](std::span<const Value> v) {
               Value product = v[0] + 1.5;
               for (const Value& factor : v.subspan(1)) product = product * (factor + 1.5);
               return product;
             },
             {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]});
       }},
      {"add and multiply ten tensors", std::vector<Shape>(10, {3}),
       [](X x) {
         Tensor y = x[0];
         for (std::size_t k = 1; k < x.size(); ++k) y = y * x[k] + x[k];
         return y;
       }},
      {"sqrt eighty times",
       {{3}},
       [](X x) {
         Tensor y = x[0];
         for (int k = 0; k < 80; ++k) y = sqrt(square(y) + square(x[0]));
         return y * ones({1}, Type::f64);
       }},
      {"map",
       {{3}, {3}},
       [](X x) {
         return map([](const Value& a, const Value& b) { return a * topograd::sin(b) + 2.0 * b; },
                    x[0], x[1]);
       }},
      {"used twice",
       {{4}},
       [](X x) {
         const Tensor y = exp(x[0]);
         return y * y + sum(y);
       }},
      {"reshape",
       {{2, 6}},
       [](X x) {
         return square(x[0].transpose().reshape({4, 3}));
       }},
      {"permute",
       {{2, 3, 4}},
       [](X x) {
         return exp(x[0].permute({2, 0, 1}));
       }},
      {"slice", {{5, 4}}, [](X x) { return square(x[0].slice(0, 1, 5, 2).slice(1, 1, 3)); }},
      {"concat",
       {{2, 3}, {2, 1}},
       [](X x) {
         return square(concat({x[0], x[1], x[0]}, 1));
       }},
      {"stack",
       {{2, 3}, {2, 3}},
       [](X x) {
         return square(stack({x[0], x[1]}, -1));
       }},
      {"split",
       {{2, 5}},
       [](X x) {
         const std::vector<Tensor> parts = split(x[0], {2, 1, 2}, 1);
         return square(parts[0]) * parts[2] + parts[1];
       }},
      {"take",
       {{2, 4, 3}},
       [](X x) {
         return square(take(x[0], tensor({3, 0, 3, 9, 1, 3}, {2, 3}, Type::f64), 1));
       }},
      {"embedding",
       {{4, 3}},
       [](X x) {
         return square(embedding(x[0], tensor({2, 2, 0}, {3})));
       }},
      {"broadcast_to",
       {{3, 1}},
       [](X x) {
         return square(x[0].broadcast_to({2, 3, 4}));
       }},
      {"sum",
       {{3, 4, 2}},
       [](X x) {
         return square(sum(x[0], {0, 2}));
       }},
      {"mean", {{3, 4}}, [](X x) { return square(mean(x[0], {-1}, true)) * x[0]; }},
      {"matmul batched", {{2, 3, 4}, {4, 2}}, [](X x) { return matmul(x[0], x[1]); }},
      {"matmul transposed",
       {{2, 4, 3}, {2, 5, 4}},
       [](X x) { return matmul(x[0].transpose(), x[1].transpose()); }},
      {"layer_norm plain", {{3, 5}}, [](X x) { return layer_norm(x[0]); }},
      {"conv2d strided",
       {{2, 2, 5, 6}, {2, 2, 3, 2}},
       [](X x) { return conv2d(x[0], x[1], {.stride = 2, .padding = 2}); }},
      {"conv2d dilated",
       {{1, 2, 6, 7}, {2, 2, 2, 3}},
       [](X x) { return conv2d(x[0], x[1], {.stride = 3, .padding = 1, .dilation = 2}); }},
      {"max_pool2d", {{2, 5, 4}}, [](X x) { return max_pool2d(x[0], 2); }},
      {"avg_pool2d", {{2, 5, 4}}, [](X x) { return avg_pool2d(x[0], 2); }},
      {"cosine_similarity of one",
       {{4}, {3, 4}},
       [](X x) { return cosine_similarity(x[0], x[1]); }},
      {"max_pool2d overlapping",
       {{2, 5, 6}},
       [](X x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); }},
      {"avg_pool2d overlapping",
       {{2, 6, 5}},
       [](X x) { return avg_pool2d(x[0], 3, {.stride = 1, .padding = 1}); }},
      {"avg_pool2d apart", {{7, 8}}, [](X x) { return avg_pool2d(x[0], 2, {.stride = 3}); }},
      {"filter2d",
       {{2, 4, 5}},
       [](X x) {
         return filter2d(x[0], std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 10}, 3, 3);
       }},
      {"filter2d separable",
       {{4, 3}},
       [](X x) {
         return filter2d(x[0], std::vector<double>{1, 2, 4, 3, 6, 12, 2, 4, 8, 1, 2, 4, 5, 10, 20},
                         5, 3);
       }},
      {"to", {{3}}, [](X x) { return square(x[0]).to(Type::f64); }},
      {"transpose", {{2, 3}}, [](X x) { return exp(x[0].transpose()); }},
      {"binary_cross_entropy",
       {{3, 5}},
       [](X x) {
         return binary_cross_entropy(x[0], less(Tensor(0.0), sample({3, 5}, 5, Type::f64)));
       }},
      {"cross_entropy",
       {{4, 3}},
       [](X x) {
         return cross_entropy(x[0], tensor({2, 0, 1, 1}, {4}, Type::f64));
       }},
      {"cross_entropy of probabilities",
       {{4, 3}},
       [](X x) {
         return cross_entropy(x[0], softmax(sample({4, 3}, 6, Type::f64)));
       }},
  };
  return all;
}

/// These, and one of each operation with a derivative.
std::vector<Case> cases() {
  std::vector<Case> out = own_cases();
  for (const OperationCase& one : operation_cases()) {
    constexpr std::int64_t kSize = 4;
    const FunctionRow* row = one.row();
    if (one.least > kSize || row == nullptr || !row->derivative) continue;
    out.push_back({one.name, one.shapes(kSize),
                   [run = one.run](const std::vector<Tensor>& x) { return run(x, {}); }});
  }
  return out;
}

}  // namespace

std::vector<std::string> gradient_case_names() {
  std::vector<std::string> out;
  for (const Case& c : cases()) out.push_back(c.name);
  return out;
}

void check_gradients_against_differences() {
  for (const Case& c : cases()) check_against_differences(c);
}

void check_gradients_against_cpu(const Device& device) {
  for (const Case& c : cases()) {
    const std::vector<Tensor> want = with_grads(c, Device::cpu()), got = with_grads(c, device);
    for (std::size_t k = 0; k < want.size(); ++k)
      expect_near(got[k].grad(), want[k].grad().values(), 1e-11, c.name);
  }
}

}  // namespace topograd::ops::test
