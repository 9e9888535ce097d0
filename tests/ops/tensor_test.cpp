// Tensors on the CPU: values, errors, fusion.
#include "ops/tensor_cases.hpp"
#include "ops/tensor_checks.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/ops/nn/layers.hpp>
#include <topograd/ops/nn/optimizer.hpp>
#include <topograd/ops/scope.hpp>
#include <topograd/ops/tensor/arrays.hpp>
#include <topograd/ops/tensor/conv.hpp>
#include <topograd/ops/tensor/fft.hpp>
#include <topograd/ops/tensor/losses.hpp>
#include <topograd/ops/tensor/matmul.hpp>
#include <topograd/ops/tensor/reduce.hpp>
#include <topograd/ops/tensor/search.hpp>
#include <topograd/ops/tensor/softmax.hpp>
#include <topograd/ops/tensor/state.hpp>

namespace topograd::ops::test {
namespace {

TEST(Tensor, Elementwise) { check_elementwise(Device::cpu()); }
TEST(Tensor, Reductions) { check_reductions(Device::cpu()); }
TEST(Tensor, Matmul) { check_matmul(Device::cpu()); }
TEST(Tensor, Rows) { check_rows(Device::cpu()); }
TEST(Tensor, Fft) { check_fft(Device::cpu()); }
TEST(Tensor, Conv) { check_conv(Device::cpu()); }
TEST(Tensor, Search) { check_search(Device::cpu()); }
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
    EXPECT_EQ(record.all()[0].op, Op::Matmul);
    EXPECT_EQ(record.all()[1].op, Op::Reduce);
    EXPECT_EQ(record.all()[1].size, 33u * 65);
    for (const RanOperation& ran : record.all()) {
      EXPECT_EQ(ran.stats.device, "cpu");
      EXPECT_GT(ran.stats.times.kernel, 0);
    }
  }
  EXPECT_TRUE(outer.all().empty());
  fft(sample({8, 2})).evaluate();
  ASSERT_EQ(outer.all().size(), 1u);
  EXPECT_EQ(outer.all()[0].op, Op::Fft);
}

TEST(Tensor, Errors) {
  const Tensor a = ones({3, 4}), b = ones({3, 1}), d = ones({3, 4}, Type::f64);
  const struct {
    std::function<void()> call;
    std::string message;
  } rows[] = {
      {[&] { matmul(a, b); }, "matmul: expected lhs columns == rhs rows, got (3, 4) and (3, 1)"},
      {[&] { matmul(a, ones({4})); }, "matmul: expected two axes at least, got (3, 4) and (4)"},
      {[&] { a + ones({3}); }, "add: expected shapes that broadcast, got (3, 4) and (3)"},
      {[&] { a + d; }, "add: expected tensors of one type, got f32 and f64"},
      {[&] {
         zeros({2, -3});
       },
       "full: expected sizes >= 0, got (2, -3)"},
      {[&] {
         zeros({70000, 70000});
       },
       "full: expected at most 4294967295 elements, got (70000, 70000)"},
      {[&] {
         tensor({1, 2, 3}, {2});
       },
       "tensor: expected 2 numbers for (2), got 3"},
      {[&] { tensor({1}, {1}, Type::i32); }, "tensor: expected f32, f64 or f16, got i32"},
      {[&] {
         a.reshape({5, -1});
       },
       "reshape: expected a shape of 12 elements for (3, 4), got (5, 2)"},
      {[&] { a.slice(1, 2, 5); },
       "slice: expected 0 <= begin <= end <= 4 and step > 0, got 2, 5 and 1"},
      {[&] {
         a.permute({0, 0});
       },
       "permute: expected each axis of (3, 4) once, got (0, 0)"},
      {[&] { a.transpose(0, 2); }, "transpose: expected an axis of (3, 4), got 2"},
      {[&] {
         a.broadcast_to({4, 3});
       },
       "broadcast_to: expected a shape that broadcasts to (4, 3), got (3, 4)"},
      {[&] {
         sum(a, {0, 0});
       },
       "sum: expected each axis once, got (0, 0)"},
      {[&] {
         max(zeros({0, 3}), {0});
       },
       "max: expected at least one entry, got (0, 3)"},
      {[&] { argmax(ones({1}).broadcast_to({16777217})); },
       "argmax: expected at most 16777216 entries of f32, got 16777217"},
      {[&] {
         argmin(ones({1}).broadcast_to({2, 16777217}).to(Type::f16));
       },
       "argmin: expected at most 16777216 entries of f32, got 16777217"},
      {[&] { a.item(); }, "item: expected one number, got (3, 4)"},
      {[&] { Tensor() + a; }, "add: expected a tensor, got none"},
      {[&] { a.backward(); }, "backward: expected one number, got (3, 4)"},
      {[&] { sum(a).backward(); },
       "backward: expected a tensor that depends on one that requires_grad()"},
      {[&] { a.assign(b); }, "assign: expected f32 of (3, 4), got f32 of (3, 1)"},
      {[&] { layer_norm(a, b, b); },
       "layer_norm: expected scale and shift of (4), got (3, 1) and (3, 1)"},
      {[&] { cross_entropy(a, ones({4})); },
       "cross_entropy: expected logits (n, classes) and targets (n) or (n, classes), got (3, 4) "
       "and (4)"},
      {[&] {
         conv2d(a, ones({1, 1, 3, 3}));
       },
       "conv2d: expected images (n, channels, height, width) and weights (outputs, channels, rows, "
       "columns) that fit them, got (3, 4) and (1, 1, 3, 3)"},
      {[&] {
         conv2d(ones({1, 1, 4, 4}), ones({1, 1, 3, 3}), {.stride = 0});
       },
       "conv2d: expected stride >= 1, padding >= 0 and dilation >= 1, got 0, 0 and 1"},
      {[&] { filter2d(a, std::vector<double>(6), 2, 3); },
       "filter2d: expected a kernel of odd sizes, got 6 numbers for (2, 3)"},
      {[&] { max_pool2d(a, 4); },
       "max_pool2d: expected images (..., height, width) of 4 pixels at least, got (3, 4)"},
      {[&] { max_pool2d(a, 3, {.stride = -1}); },
       "max_pool2d: expected size >= 1, stride >= 0 and 0 <= padding <= size / 2, got 3, -1 and 0"},
      {[&] { avg_pool2d(a, 2, {.padding = 2}); },
       "avg_pool2d: expected size >= 1, stride >= 0 and 0 <= padding <= size / 2, got 2, 2 and 2"},
      {[&] { randn({-1}, 1); }, "randn: expected sizes >= 0, got (-1)"},
      {[&] { rand({2}, 1, Type::u32); }, "rand: expected f32, f64 or f16, got u32"},
      {[&] { array_of<double>(a); }, "array_of: expected a tensor of f64, got f32"},
      {[&] {
         tensor(Array<float>({1, 2, 3}), {2});
       },
       "tensor: expected 2 numbers for (2), got 3"},
      {[&] {
         cosine_similarity(ones({3}), ones({5, 4}));
       },
       "cosine_similarity: expected a query (d) or (q, d) and targets (n, d), got (3) and (5, 4)"},
      {[&] { top_k(ones({7}), 9); }, "top_k: expected 0 < k <= 7, got 9"},
      {[&] { fft(a); }, "fft: expected complex numbers (..., n, 2), got (3, 4)"},
      {[&] {
         irfft(ones({4, 2}), 9);
       },
       "irfft: expected n/2 + 1 complex numbers for n = 9, got (4, 2)"},
      {[] {
         irfft(ones({1, 2}), 0);
       },
       "irfft: expected n >= 1, got 0"},
      {[] { Tensor().values(); }, "values: expected a tensor, got none"},
      {[&] {
         map([](std::span<const Value> v) { return v[8]; }, {a, a, a, a, a, a, a, a, a});
       },
       "map: expected at most 8 tensors, got 9"},
      {[&] {
         map(
             [](Value x) {
               for (int k = 0; k < 9; ++k) x = x * double(k) + 1.0;
               return x;
             },
             a);
       },
       "map: expected at most 16 numbers beside tensors, got 18; make those that never change "
       "literal(c)"},
      {[&] { huber_loss(a, a, 0); }, "huber_loss: expected delta > 0, got 0.000000"},
      {[&] { nn::Sgd({a}); }, "optimizer: expected parameters that require_grad()"},
  };
  for (const auto& row : rows) EXPECT_EQ(message(row.call), row.message);
}

}  // namespace
}  // namespace topograd::ops::test
