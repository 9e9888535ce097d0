// Tensors on the CPU: values, errors, fusion.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/nn/layers.hpp"
#include "../../../ops/nn/optimizer.hpp"
#include "../../../ops/run/run.hpp"
#include "../../../ops/tensor/arrays.hpp"
#include "../../../ops/tensor/operations.hpp"
#include "../../../ops/tensor/state.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace topograd::ops::test {
namespace {

TEST(Tensor, Elementwise) { check_elementwise(Device::cpu()); }
TEST(Tensor, Reductions) { check_reductions(Device::cpu()); }
TEST(Tensor, Matmul) { check_matmul(Device::cpu()); }
TEST(Tensor, Rows) { check_rows(Device::cpu()); }
TEST(Tensor, Fft) { check_fft(Device::cpu()); }
TEST(Tensor, Conv) { check_conv(Device::cpu()); }
TEST(Tensor, Search) { check_search(Device::cpu()); }
TEST(Tensor, Parts) { check_parts(Device::cpu()); }
TEST(Tensor, Half) { check_half(Device::cpu()); }
TEST(Tensor, Losses) { check_losses(Device::cpu()); }
TEST(Tensor, Activations) { check_activations(Device::cpu()); }
TEST(Tensor, Transforms) { check_transforms(Device::cpu()); }
TEST(Tensor, ProductTiles) { check_product_tiles(Device::cpu()); }
TEST(Tensor, NaN) { check_nan(Device::cpu()); }
TEST(Tensor, Random) { check_random(Device::cpu()); }
TEST(Tensor, Options) { check_options(Device::cpu()); }
TEST(Tensor, SameNumbers) { check_same_numbers(Device::cpu()); }
TEST(Tensor, Trains) { check_training(Device::cpu()); }
TEST(Tensor, DividesBatches) { check_data_parallel(Device::cpu()); }
TEST(Tensor, TrainsNetworksOfRunTime) { check_networks_of_run_time(Device::cpu()); }

/// Rows run on several threads: each is that of its own transform, whatever the factors.
TEST(Tensor, FftOfManyRowsIsThatOfEachRow) {
  for (const std::int64_t n : {64, 7 * 31, 1009}) {
    for (const Type type : {Type::f32, Type::f64}) {
      // A device's transform rounds otherwise, so all rows stay on the CPU.
      const Tensor z = randn({300, n, 2}, 5, type, Device::cpu()), all = fft(z),
                   x = z.slice(-1, 0, 1).reshape({300, n});
      const Tensor half = rfft(x);
      for (std::int64_t row = 0; row < 300; row += 23) {
        EXPECT_EQ(fft(z.slice(0, row, row + 1)).values(), all.slice(0, row, row + 1).values()) << n;
        EXPECT_EQ(rfft(x.slice(0, row, row + 1)).values(), half.slice(0, row, row + 1).values())
            << n;
      }
    }
  }
}

TEST(Tensor, ShortestTransformsOfManyRows) {
  constexpr std::int64_t kRows = 20'000;
  const Tensor x = randn({kRows, 2}, 5, Type::f64), z = randn({kRows, 1, 2}, 6, Type::f64);
  const std::vector<double> in = x.values(), out = rfft(x).values();
  for (std::size_t row = 0; row < kRows; ++row) {
    const double a = in[2 * row], b = in[2 * row + 1];
    ASSERT_NEAR(out[4 * row], a + b, 1e-15 * (std::abs(a) + std::abs(b))) << row;
    ASSERT_NEAR(out[4 * row + 2], a - b, 1e-15 * (std::abs(a) + std::abs(b))) << row;
  }
  EXPECT_EQ(fft(z).values(), z.values());
}

TEST(Tensor, NetworksGrowApart) {
  const Tensor x = tensor({1, -2, 3}, {1, 3});
  nn::Sequential net;
  EXPECT_EQ(net(x).values(), x.values());
  EXPECT_TRUE(net.parameters().empty());
  net.add(nn::Dense(3, 2, 1));
  const nn::Sequential within{net, relu};  // in its present form
  const nn::Sequential copy = net;
  net.add(relu).add(nn::Dense(2, 4, 2)).add([](const Tensor& y) { return y * 2.0; });
  EXPECT_EQ(net.layers().size(), 4u);
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net(x).shape(), (Shape{1, 4}));
  EXPECT_EQ(copy(x).shape(), (Shape{1, 2}));
  EXPECT_EQ(within.parameters().size(), 2u);
  EXPECT_EQ(within(x).shape(), (Shape{1, 2}));
  net.add(net);  // its earlier form
  EXPECT_EQ(net.layers().size(), 5u);
  EXPECT_EQ(nn::Sequential(std::vector<nn::Layer>(net.layers())).parameters().size(), 8u);
  // Parameters are shared.
  copy.parameters()[1].assign(tensor({5, 6}, {2}));
  EXPECT_EQ(within.parameters()[1].values(), (std::vector<double>{5, 6}));
}

TEST(Tensor, ReshapesWithoutACopyWhereItCan) {
  const Tensor a = sample({4, 6, 5});
  const struct {
    Tensor from;
    Shape to;
    bool view;
  } rows[] = {
      {a, {24, 5}, true},
      {a, {2, 2, 2, 3, 5}, true},
      {a, {-1}, true},
      {a.transpose(0, 1), {6, 2, 2, 5}, true},
      {a.transpose(0, 1), {24, 5}, false},
      {a.slice(0, 0, 4, 2), {2, 30}, true},
      {a.slice(1, 0, 3), {12, 5}, false},
      {ones({1}).broadcast_to({6, 4}), {4, 6}, true},
  };
  for (const auto& row : rows) {
    const Tensor to = row.from.reshape(row.to);
    const bool view = to.state()->data.storage == row.from.state()->data.storage;
    EXPECT_EQ(view, row.view) << to_text(row.from.shape()) << " to " << to_text(row.to);
    EXPECT_EQ(to.values(), row.from.values());
  }
}

TEST(Tensor, FusesChains) {
  const Tensor a = sample({100}), b = sample({100}, 2);
  const Tensor chain = relu(a * 2.0 + b) - exp(a);
  ASSERT_EQ(chain.state()->pending->inputs.size(), 2u);
  EXPECT_EQ(chain.state()->pending->numbers, (std::vector<double>{2.0}));
  // Fifteen operations with ten numbers are one kernel.
  const Tensor fifteen =
      relu(((((a * 1.5 + 0.25) * 2.5 - 0.75) * 3.5 + tanh(a * 0.5)) / 4.5 + 6.5) * 7.5 - 8.5) * b;
  ASSERT_EQ(fifteen.state()->pending->inputs.size(), 2u);
  EXPECT_EQ(fifteen.state()->pending->inputs[0].view.storage, a.state()->data.storage);
  EXPECT_EQ(fifteen.state()->pending->numbers.size(), 10u);
  Tensor longer = a;
  for (int k = 0; k < 1000; ++k) longer = longer * 0.5 + b;
  double want = a.values()[7];
  for (int k = 0; k < 1000; ++k) want = want * 0.5 + b.values()[7];
  EXPECT_NEAR(longer.values()[7], want, 1e-6);
}

TEST(Tensor, AssignmentLeavesWhatWasComputedBefore) {
  const Tensor a = tensor({1, 2, 3}, {3});
  const Tensor b = a + 1.0;  // not read yet
  a.assign(zeros({3}));
  EXPECT_EQ(b.values(), (std::vector<double>{2, 3, 4}));
  EXPECT_EQ((a + 1.0).values(), (std::vector<double>{1, 1, 1}));
}

TEST(Tensor, NumbersMixWithDoubles) {
  const Tensor third(1.0 / 3);
  EXPECT_EQ(third.item(), static_cast<double>(1.0f / 3));
  EXPECT_EQ((ones({1}, Type::f64) * third).item(), 1.0 / 3);
}

TEST(Tensor, RandomNumbersWithoutASeed) {
  seed(5);
  const std::vector<double> first = randn({2, 3}).values(), second = randn({2, 3}).values();
  const std::vector<double> third = rand({4}, Type::f64).values();
  EXPECT_EQ(first.size(), 6u);
  EXPECT_NE(first, second);
  seed(5);
  EXPECT_EQ(randn({2, 3}).values(), first);
  EXPECT_EQ(randn({2, 3}).values(), second);
  EXPECT_EQ(rand({4}, Type::f64).values(), third);
  seed(6);
  EXPECT_NE(randn({2, 3}).values(), first);
}

TEST(Tensor, EveryActivationIsALayer) {
  const Tensor x = sample({3, 5});
  const nn::Sequential all{nn::relu, nn::leaky_relu, nn::elu,  nn::gelu,
                           nn::silu, nn::sigmoid,    nn::tanh, nn::softplus};
  Tensor want = softplus(tanh(sigmoid(silu(gelu(elu(leaky_relu(relu(x), 0.01), 1))))));
  EXPECT_EQ(all(x).values(), want.values());
  EXPECT_EQ(nn::Sequential{leaky_relu}(x).values(), leaky_relu(x, 0.01).values());
  EXPECT_EQ(nn::mse_loss(x, x).item(), 0);
}

TEST(Tensor, OperationsOfAScopeAreRecorded) {
  const Tensor a = sample({33, 31}), b = sample({31, 65}, 2);
  const RecordOperations outer;
  {
    const RecordOperations record;
    sum(relu(matmul(a, b)) * 2.0).item();
    ASSERT_EQ(record.all().size(), 2u) << "the product, and all that follows in one";
    EXPECT_EQ(record.all()[0].op, Operation::Matmul);
    EXPECT_EQ(record.all()[1].op, Operation::Reduce);
    EXPECT_EQ(record.all()[1].size, 33u * 65);
    for (const RanOperation& ran : record.all()) {
      EXPECT_EQ(ran.stats.device, "cpu");
      EXPECT_GT(ran.stats.times.kernel, 0);
    }
  }
  EXPECT_TRUE(outer.all().empty());
  fft(sample({8, 2})).evaluate();
  ASSERT_EQ(outer.all().size(), 1u);
  EXPECT_EQ(outer.all()[0].op, Operation::Fft);
}

}  // namespace
}  // namespace topograd::ops::test
