// Training: initial values of tensors, optimisers, and a network that learns.
#include "../../support/paths.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/backend/backend.hpp"
#include "../../../ops/nn/data_parallel.hpp"
#include "../../../ops/nn/layers.hpp"
#include "../../../ops/nn/optimizer.hpp"
#include "../../../ops/tensor/autograd.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace topograd::ops::test {
namespace {

using Vector = std::vector<double>;

using Make = std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>&)>;

/// One optimiser for each form of step.
const std::vector<Make>& optimizers() {
  using nn::Adam, nn::AdamW, nn::Sgd, std::make_unique;
  using Tensors = const std::vector<Tensor>&;
  static const std::vector<Make> all = {
      [](Tensors x) { return make_unique<Sgd>(x, nn::SgdOptions{.rate = 0.1}); },
      [](Tensors x) {
        return make_unique<Sgd>(x,
                                nn::SgdOptions{.rate = 0.1, .momentum = 0.7, .weight_decay = 0.05});
      },
      [](Tensors x) { return make_unique<Adam>(x, nn::AdamOptions{.rate = 0.1}); },
      [](Tensors x) {
        return make_unique<Adam>(x, nn::AdamOptions{.rate = 0.1, .weight_decay = 0.05});
      },
      [](Tensors x) { return make_unique<AdamW>(x, nn::AdamWOptions{.rate = 0.1}); },
  };
  return all;
}

/// x after some steps along the derivative of the sum of x^4 / 4.
Tensor stepped(const Make& make, Type type, const Device& device) {
  Tensor x = sample({259}, 4, type).to(device);
  x.requires_grad();
  const std::unique_ptr<nn::Optimizer> optimizer = make({x});
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    sum(square(square(x)) * 0.25).backward();
    optimizer->step();
  }
  return x.detach();
}

}  // namespace

/// optimizer_test.cpp checks the values on the CPU.
void check_optimizers(const Device& device) {
  for (const Type type : {Type::f32, Type::f64}) {
    if (type == Type::f64 && !device.facts().float64) continue;
    for (std::size_t k = 0; k < optimizers().size(); ++k) {
      const Tensor x = stepped(optimizers()[k], type, device);
      EXPECT_EQ(x.placed(), device) << k;
      expect_near(x, stepped(optimizers()[k], type, Device::cpu()).values(),
                  type == Type::f32 ? 2e-5 : 1e-13, "optimizer " + std::to_string(k));
    }
  }
}

/// Three steps of Adam with every division of batches, against those on the CPU alone.
void check_data_parallel(const Device& device) {
  const auto network = [](std::uint64_t seed) {
    return nn::Sequential{nn::Dense(6, 5, seed), relu, nn::Dense(5, 3, seed + 1)};
  };
  const auto loss = [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); };
  const Device cpu = Device::cpu();
  for (const std::int64_t rows : {1, 2, 7}) {
    for (const std::vector<Device>& devices :
         {std::vector{device}, {cpu, device}, {device, cpu}, {device, device, cpu}}) {
      const std::string what = std::to_string(rows) + " rows, " + std::to_string(devices.size());
      const nn::Sequential alone = network(1);
      std::uint64_t seed = 1;  // copies get the parameters of the first
      const nn::DataParallel parallel([&] { return network(std::exchange(seed, seed + 10)); },
                                      devices);
      EXPECT_EQ(parallel.parameters()[0].placed(), devices[0]) << what;
      nn::Adam one(alone.parameters(), {.rate = 0.05}), many(parallel.parameters(), {.rate = 0.05});
      for (int step = 0; step < 3; ++step) {
        const Tensor x = sample({rows, 6}, 3 + step);
        const Tensor y = tensor(Vector(static_cast<std::size_t>(rows), step), {rows});
        one.zero_grad(), many.zero_grad();
        const Tensor expected = loss(alone(x), y);
        expected.backward();
        expect_near(parallel.backward(x, y, loss), {expected.item()}, 1e-5, what + ": loss");
        for (std::size_t k = 0; k < one.parameters().size(); ++k) {
          expect_near(parallel.parameters()[k].grad(), one.parameters()[k].grad().values(), 1e-5,
                      what + ": derivatives " + std::to_string(k));
        }
        one.step(), many.step();
      }
      for (std::size_t k = 0; k < one.parameters().size(); ++k) {
        expect_near(parallel.parameters()[k], one.parameters()[k].values(), 1e-3,
                    what + ": parameter " + std::to_string(k));
      }
    }
  }
  const nn::DataParallel parallel([&] { return network(1); }, {cpu, device});
  EXPECT_NE(message([&] {
              parallel.backward(sample({4, 6}), sample({3}), loss);
            }).find("as many rows, at least one, got (4, 6) and (3)"),
            std::string::npos);
  EXPECT_NE(message([&] {
              nn::DataParallel([&] { return network(1); }, {});
            }).find("expected at least one device"),
            std::string::npos);
  std::int64_t width = 3;
  EXPECT_NE(message([&] {
              nn::DataParallel([&] { return nn::Dense(width++, 2, 1); }, {cpu, device});
            }).find("parameters of equal shapes"),
            std::string::npos);
}

void check_same_numbers(const Device& device) {
  const Tensor three = full({2, 3}, 3).to(device);
  EXPECT_EQ(three.placed(), device);
  expect_near(three, Vector(6, 3), 0, "full");
  expect_near(full({2, 3}, 3).to(device).reshape({3, -1}).broadcast_to({4, 3, 2}), Vector(24, 3), 0,
              "broadcast");
  expect_near(
      full({3, 1}, 2).to(device).transpose() * sample({2, 3}).to(device),
      [] {
        Vector out = numbers(6);
        for (double& v : out) v = static_cast<float>(2 * static_cast<float>(v));
        return out;
      }(),
      0, "product");
  expect_near(sum(ones({7, 300}).to(device), {1}), Vector(7, 300), 0, "sum");
  expect_near(matmul(full({3, 4}, 2).to(device), ones({4, 5}).to(device)), Vector(15, 8), 0,
              "matmul");
  expect_near(full({5}, 0.1, Type::f16).to(device).to(Type::f32), Vector(5, 0.0999755859375), 0,
              "f16");
  EXPECT_EQ(zeros({0, 3}).to(device).count(), 0);
  EXPECT_EQ(full({}, 2.5).to(device).item(), 2.5);
  EXPECT_EQ(message([&] {
              full({2, 3}, 1).to(device).broadcast_to({2, 4});
            }),
            message([&] {
              sample({2, 3}).to(device).broadcast_to({2, 4});
            }));
  // Tensors marked for derivatives have their own numbers.
  Tensor x = zeros({4}).to(device);
  x.requires_grad();
  sum(x * 3.0).backward();
  expect_near(x.grad(), Vector(4, 3), 0, "derivative");
  sum(x * 3.0).backward();
  expect_near(x.grad(), Vector(4, 6), 0, "derivatives");
}

void check_training(const Device& device) {
  // A network learns the sign of a product, which is not linearly separable.
  const Tensor x = sample({257, 2}, 8).to(device);
  const Vector v = x.to_cpu().values();
  std::vector<double> signs;
  for (std::size_t k = 0; k < 257; ++k) signs.push_back(v[2 * k] * v[2 * k + 1] > 0 ? 1 : 0);
  const Tensor y = tensor(signs, {257}).to(device);
  nn::Sequential net{nn::Dense(2, 32, 1), tanh, nn::Dense(32, 2, 2)};
  net.to(device);
  nn::Adam adam(net.parameters(), {.rate = 0.02});
  double first = 0, last = 0;
  std::uint64_t held_early = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    last = step % 59 == 0 ? loss.item() : last;
    if (step == 0) first = last;
    device.synchronise();
    const std::uint64_t held_now = device.backend().counters().bytes_in_use;
    if (step == 10) held_early = held_now;
    if (step > 10 && step < 59) {
      EXPECT_LE(held_now, held_early) << "step " << step;  // the last one keeps its loss
    }
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.2);
}

namespace {

struct Digits {
  Vector pixels, classes;

  std::int64_t count() const { return static_cast<std::int64_t>(classes.size()); }
  Tensor x(const Device& device) const { return (tensor(pixels, {count(), 64}) / 16.0).to(device); }
  Tensor y(const Device& device) const { return tensor(classes, {count()}).to(device); }
};

/// Rows of 64 pixels and the digit; every fourth row is held out.
void read_digits(int rows, Digits& train, Digits& held_out) {
  std::istringstream file(
      topograd::test::read_file(topograd::test::source_dir() / "samples/data/digits.csv"));
  std::string line, field;
  for (int row = 0; row < rows && std::getline(file, line); ++row) {
    Digits& set = row % 4 == 0 ? held_out : train;
    std::istringstream fields(line);
    for (int k = 0; std::getline(fields, field, ','); ++k)
      (k < 64 ? set.pixels : set.classes).push_back(std::stod(field));
  }
}

/// The loss after some steps of training.
double trained(const nn::Sequential& net, nn::Optimizer&& optimizer, const Tensor& x,
               const Tensor& y, int steps) {
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step + 1 == steps) last = loss.item();
  }
  return last;
}

/// Dense layers of these widths, each with its number as seed.
nn::Sequential network_of(const std::vector<std::int64_t>& widths) {
  nn::Sequential net;
  for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
    if (k > 0) net.add(relu);
    net.add(nn::Dense(widths[k], widths[k + 1], k + 1));
  }
  return net;
}

}  // namespace

void check_networks_of_run_time(const Device& device) {
  Digits train, held_out;
  read_digits(600, train, held_out);
  const Tensor x = train.x(device), y = train.y(device);
  // The same network as the stored one, bit for bit, with each optimiser.
  for (const Make& make : optimizers()) {
    if (!device.is_cpu()) break;  // shows nothing more there
    const nn::Sequential built = network_of({64, 12, 10});
    const nn::Sequential written{nn::Dense(64, 12, 1), relu, nn::Dense(12, 10, 2)};
    built.to(device), written.to(device);
    EXPECT_EQ(built(x).values(), written(x).values());
    const std::unique_ptr<nn::Optimizer> for_built = make(built.parameters());
    const std::unique_ptr<nn::Optimizer> for_written = make(written.parameters());
    EXPECT_EQ(trained(built, std::move(*for_built), x, y, 3),
              trained(written, std::move(*for_written), x, y, 3));
  }
  // A network that learns.
  const nn::Sequential net = network_of({64, 48, 24, 10});
  ASSERT_EQ(net.layers().size(), 5u);
  ASSERT_EQ(net.parameters().size(), 6u);
  net.to(device);
  EXPECT_LT(trained(net, nn::Adam(net.parameters(), {.rate = 0.01}), x, y, 50), 0.15);
  const NoGrad guard;
  const Tensor right = equal(argmax(net(held_out.x(device))), held_out.y(device));
  EXPECT_GE(mean(right).item(), 0.9) << "of " << held_out.count();
}

void check_step_costs(const Device& device, bool timestamps) {
  const Tensor x = sample({64, 40}, 8).to(device);
  const Tensor y = map([](const Value& v) { return topograd::floor(v * literal(2.0)); },
                       rand({64}, 3, Type::f32, Device::cpu()))
                       .to(device);
  nn::Sequential net{nn::Dense(40, 32, 1), relu, nn::Dense(32, 10, 2)};
  net.to(device);
  nn::Adam adam(net.parameters());
  const auto step = [&] {
    const Tensor loss = cross_entropy(net(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
  };
  // Devices without timestamps are waited for before and after a timed run: of a kernel the first
  // ones, then one in 64 of all.
  constexpr int kTimed = 40, kUntimed = 64;
  for (int warm = 0; warm < kTimed; ++warm) step();
  const BackendCounters before = device.backend().counters();
  constexpr int kSteps = 5;
  for (int k = 0; k < kSteps; ++k) step();
  device.backend().flush();
  const BackendCounters used = device.backend().counters() - before;
  EXPECT_EQ(used.bytes_up, 0u);
  EXPECT_EQ(used.bytes_down, 0u);
  EXPECT_EQ(used.compiled, 0u);
  EXPECT_LE(used.launches, 24u * kSteps);
  EXPECT_LE(used.submissions, kSteps + (timestamps ? 0 : 2 * used.launches / kUntimed));
}

}  // namespace topograd::ops::test
