// Steps of optimisers against their published algorithms, written for one number.
#include "tensor_checks.hpp"

#include "../../../ops/nn/optimizer.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

namespace topograd::ops::test {
namespace {

constexpr int kSteps = 7;

/// A parameter after kSteps steps along the derivative of ½ (x - 3)².
double stepped(const std::function<std::unique_ptr<nn::Optimizer>(std::vector<Tensor>)>& make) {
  Tensor x = tensor({-1.5}, {1}, Type::f64);
  x.requires_grad();
  const auto optimizer = make({x});
  for (int k = 0; k < kSteps; ++k) {
    optimizer->zero_grad();
    sum(square(x - 3.0) * 0.5).backward();
    optimizer->step();
  }
  return x.item();
}

/// Robbins and Monro with Polyak's momentum and coupled decay.
double sgd(double rate, double momentum, double decay) {
  double x = -1.5, v = 0;
  for (int k = 0; k < kSteps; ++k) {
    v = momentum * v + (x - 3) + decay * x;
    x -= rate * v;
  }
  return x;
}

/// Kingma and Ba, algorithm 1; decoupled: Loshchilov and Hutter, algorithm 2 without a schedule.
double adam(double rate, double decay, bool decoupled) {
  double x = -1.5, m = 0, v = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double g = (x - 3) + (decoupled ? 0 : decay * x);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double mean = m / (1 - std::pow(0.9, t)), square = v / (1 - std::pow(0.999, t));
    x -= rate * mean / (std::sqrt(square) + 1e-8) + (decoupled ? rate * decay * x : 0);
  }
  return x;
}

TEST(Optimizer, TakesTheStepsOfItsAlgorithm) {
  const auto make = [](auto optimizer, auto options) {
    using O = typename decltype(optimizer)::type;
    return [options](std::vector<Tensor> x) { return std::make_unique<O>(std::move(x), options); };
  };
  const std::type_identity<nn::Sgd> plain;
  const std::type_identity<nn::Adam> coupled;
  const std::type_identity<nn::AdamW> decoupled;
  const struct {
    std::string name;
    std::function<std::unique_ptr<nn::Optimizer>(std::vector<Tensor>)> make;
    double x;
  } rows[] = {
      {"sgd", make(plain, nn::SgdOptions{}), sgd(0.01, 0, 0)},
      {"sgd with all",
       make(plain, nn::SgdOptions{.rate = 0.1, .momentum = 0.8, .weight_decay = 0.3}),
       sgd(0.1, 0.8, 0.3)},
      {"adam", make(coupled, nn::AdamOptions{}), adam(0.001, 0, false)},
      {"adam with decay", make(coupled, nn::AdamOptions{.rate = 0.2, .weight_decay = 0.5}),
       adam(0.2, 0.5, false)},
      {"adamw", make(decoupled, nn::AdamWOptions{}), adam(0.001, 0.01, true)},
      {"adamw of another rate decays, too", make(decoupled, nn::AdamWOptions{.rate = 0.2}),
       adam(0.2, 0.01, true)},
      {"adamw of another decay",
       make(decoupled, nn::AdamWOptions{.rate = 0.2, .weight_decay = 0.5}), adam(0.2, 0.5, true)},
  };
  for (const auto& row : rows) EXPECT_NEAR(stepped(row.make), row.x, 1e-12) << row.name;
}

TEST(Optimizer, RoundsParametersOfHalfPrecision) {
  Tensor half = tensor({-1.5, 2, 0.25}, {3}, Type::f16), single = half.to(Type::f32);
  half.requires_grad();
  single.requires_grad();
  nn::Adam a({half}, {.rate = 0.1}), b({single}, {.rate = 0.1});
  sum(square(half)).backward();
  sum(square(single)).backward();
  a.step();
  b.step();
  EXPECT_EQ(half.type(), Type::f16);
  EXPECT_EQ(half.values(), single.to(Type::f16).values());
  EXPECT_NEAR(half.values()[0], -1.4, 1e-3);
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Tensor x = tensor({-1.5}, {1});
  x.requires_grad();
  const struct {
    std::function<void()> call;
    std::string message;
  } rows[] = {
      {[&] { nn::Sgd({x}, {.rate = -1}); }, "sgd: expected a finite rate >= 0, got -1"},
      {[&] { nn::Sgd({x}, {.rate = kNaN}); }, "sgd: expected a finite rate >= 0, got nan"},
      {[&] { nn::Sgd({x}, {.rate = HUGE_VAL}); }, "sgd: expected a finite rate >= 0, got inf"},
      {[&] { nn::Sgd({x}, {.momentum = -0.5}); }, "sgd: expected a finite momentum >= 0, got -0.5"},
      {[&] { nn::Sgd({x}, {.weight_decay = -2}); },
       "sgd: expected a finite weight_decay >= 0, got -2"},
      {[&] { nn::Adam({x}, {.rate = -0.25}); }, "adam: expected a finite rate >= 0, got -0.25"},
      {[&] { nn::Adam({x}, {.beta1 = 1}); }, "adam: expected 0 <= beta1 < 1, got 1"},
      {[&] { nn::Adam({x}, {.beta1 = -0.5}); }, "adam: expected 0 <= beta1 < 1, got -0.5"},
      {[&] { nn::Adam({x}, {.beta2 = 1.5}); }, "adam: expected 0 <= beta2 < 1, got 1.5"},
      {[&] { nn::Adam({x}, {.beta2 = kNaN}); }, "adam: expected 0 <= beta2 < 1, got nan"},
      {[&] { nn::Adam({x}, {.epsilon = -1}); }, "adam: expected a finite epsilon >= 0, got -1"},
      {[&] { nn::Adam({x}, {.weight_decay = -1}); },
       "adam: expected a finite weight_decay >= 0, got -1"},
      {[&] { nn::AdamW({x}, {.rate = -3}); }, "adamw: expected a finite rate >= 0, got -3"},
      {[&] { nn::AdamW({x}, {.weight_decay = kNaN}); },
       "adamw: expected a finite weight_decay >= 0, got nan"},
  };
  for (const auto& row : rows) EXPECT_EQ(message(row.call), row.message);
  nn::Sgd({x}, {.rate = 0});  // as at the start of schedules
  nn::Adam({x}, {.beta1 = 0, .beta2 = 0, .epsilon = 0});

  // Invalid options: refused before anything is written.
  nn::Adam adam({x});
  sum(square(x)).backward();
  adam.options.rate = kNaN;
  EXPECT_EQ(message([&] { adam.step(); }), "adam: expected a finite rate >= 0, got nan");
  EXPECT_EQ(x.item(), -1.5);
  adam.options.rate = 0.1;
  adam.step();
  EXPECT_NEAR(x.item(), -1.4, 1e-6) << "the first step";
}

}  // namespace
}  // namespace topograd::ops::test
