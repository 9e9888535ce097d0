// Invalid arguments of tensors: each call names expected and got, and writes nothing.
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/tensors.hpp"

#include <limits>

namespace topograd::ops::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

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
       "reshape: expected a shape of 12 elements for (3, 4), got (5, -1)"},
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
      {[&] { concat({}); }, "concat: expected a tensor at least, got none"},
      {[&] {
         concat({a, b}, 0);
       },
       "concat: expected shapes that agree but for axis 0, got (3, 4) and (3, 1)"},
      {[&] {
         concat({a, ones({3})}, 1);
       },
       "concat: expected shapes that agree but for axis 1, got (3, 4) and (3)"},
      {[&] {
         concat({a, d});
       },
       "concat: expected tensors of one type, got f32 and f64"},
      {[&] { concat({a}, 2); }, "concat: expected an axis of (3, 4), got 2"},
      {[&] {
         stack({a, b});
       },
       "stack: expected tensors of one shape, got (3, 4) and (3, 1)"},
      {[&] {
         split(a, {1, 2}, 1);
       },
       "split: expected sizes >= 0 that sum to 4, got (1, 2)"},
      {[&] {
         split(a, {5, -1}, 1);
       },
       "split: expected sizes >= 0 that sum to 4, got (5, -1)"},
      {[&] {
         take(a, tensor({0, 3}, {2}), 0, IndexCheck::throws);
       },
       "take: index 1 is 3, expected a whole number in [0, 3)"},
      {[&] { embedding(a, tensor({0.5}, {1}), IndexCheck::throws); },
       "embedding: index 0 is 0.5, expected a whole number in [0, 3)"},
      {[&] { take(ones({3000}), ones({1}, Type::f16)); },
       "take: expected at most 2048 entries of f16, got 3000"},
      {[&] { embedding(ones({5}), b); }, "embedding: expected a table (n, d), got (5)"},
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
      {[] {
         rfft(zeros({3, 0}));
       },
       "rfft: expected at least one number along an axis that is transformed, got (3, 0)"},
      {[] { rfft(zeros({0})); },
       "rfft: expected at least one number along an axis that is transformed, got (0)"},
      {[] {
         rfft2(zeros({0, 4}));
       },
       "rfft2: expected at least one number along an axis that is transformed, got (0, 4)"},
      {[] {
         fft(zeros({0, 2}));
       },
       "fft: expected at least one number along an axis that is transformed, got (0, 2)"},
      {[] {
         ifft(zeros({3, 0, 2}));
       },
       "ifft: expected at least one number along an axis that is transformed, got (3, 0, 2)"},
      {[] {
         fft2(zeros({0, 3, 2}));
       },
       "fft2: expected at least one number along an axis that is transformed, got (0, 3, 2)"},
      {[] {
         ifft2(zeros({3, 0, 2}));
       },
       "ifft2: expected at least one number along an axis that is transformed, got (3, 0, 2)"},
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
      {[&] { clamp(a, 1, 0.5); }, "clamp: expected low <= high, got 1 and 0.5"},
      {[&] { huber_loss(a, a, 0); }, "huber_loss: expected delta > 0, got 0.000000"},
      {[&] { nn::Sgd({a}); }, "optimizer: expected parameters that require_grad()"},
  };
  for (const auto& row : rows) EXPECT_EQ(message(row.call), row.message);
}

TEST(Tensor, ErrorsNameTheOperation) {
  const Tensor a = ones({3, 4}), wide = ones({3, 4}, Type::f64), number(1.0);
  const Tensor image = ones({1, 1, 4, 4}), window = ones({1, 1, 3, 3});
  const struct {
    std::function<void()> call;
    std::string message;
  } rows[] = {
      {[&] {
         a.reshape({-1, -1});
       },
       "reshape: expected at most one size of -1, got (-1, -1)"},
      {[&] {
         a.reshape({kHuge, 4, -1});
       },
       "reshape: expected at most 4294967295 elements, got (4611686018427387904, 4, 1)"},
      {[&] { mse_loss(a, ones({5})); },
       "mse_loss: expected shapes that broadcast, got (3, 4) and (5)"},
      {[&] { mae_loss(a, ones({5})); },
       "mae_loss: expected shapes that broadcast, got (3, 4) and (5)"},
      {[&] { huber_loss(a, ones({5})); },
       "huber_loss: expected shapes that broadcast, got (3, 4) and (5)"},
      {[&] { tukey_loss(a, ones({5})); },
       "tukey_loss: expected shapes that broadcast, got (3, 4) and (5)"},
      {[&] { binary_cross_entropy(a, ones({5})); },
       "binary_cross_entropy: expected shapes that broadcast, got (3, 4) and (5)"},
      {[&] { mse_loss(a, wide); }, "mse_loss: expected tensors of one type, got f32 and f64"},
      {[&] { mae_loss(a, wide); }, "mae_loss: expected tensors of one type, got f32 and f64"},
      {[&] { cross_entropy(a, wide); },
       "cross_entropy: expected tensors of one type, got f32 and f64"},
      {[&] { mean(a, {5}); }, "mean: expected an axis of (3, 4), got 5"},
      {[&] { variance(a, {7}); }, "variance: expected an axis of (3, 4), got 7"},
      {[&] {
         variance(a, {1, -1});
       },
       "variance: expected each axis once, got (1, -1)"},
      {[&] { softmax(a, 2); }, "softmax: expected an axis of (3, 4), got 2"},
      {[&] { log_softmax(number); }, "log_softmax: expected an axis of (), got -1"},
      {[&] { argmax(number); }, "argmax: expected an axis of (), got -1"},
      {[&] { top_k(number, 1); }, "top_k: expected an axis of (), got -1"},
      {[&] { layer_norm(a, -1.0); }, "layer_norm: expected a finite epsilon >= 0, got -1"},
      {[&] { layer_norm(a, ones({4}), ones({4}), kNaN); },
       "layer_norm: expected a finite epsilon >= 0, got nan"},
      {[&] {
         matmul(ones({2, 3, 4}), ones({3, 4, 2}));
       },
       "matmul: expected axes before the last two that broadcast, got (2, 3, 4) and (3, 4, 2)"},
      {[&] { conv2d(image, window, {.padding = -1}); },
       "conv2d: expected stride >= 1, padding >= 0 and dilation >= 1, got 1, -1 and 1"},
      {[&] { conv2d(image, window, {.dilation = 0}); },
       "conv2d: expected stride >= 1, padding >= 0 and dilation >= 1, got 1, 0 and 0"},
      {[&] { conv2d(image, window, {.padding = kHuge}); },
       "conv2d: expected stride, padding and dilation <= 2147483647, got 1, 4611686018427387904 "
       "and 1"},
      {[&] { conv2d(image, window, {.padding = 1 << 20}); },
       "conv2d: expected at most 4294967295 elements, got (1, 1, 2097154, 2097154)"},
      {[&] {
         conv2d(image, ones({1, 1, 5, 5}));
       },
       "conv2d: expected images (n, channels, height, width) and weights (outputs, channels, rows, "
       "columns) that fit them, got (1, 1, 4, 4) and (1, 1, 5, 5)"},
      {[&] {
         irfft2(ones({2, 3, 2}), 9);
       },
       "irfft2: expected n/2 + 1 complex numbers for n = 9, got (2, 3, 2)"},
      {[&] {
         irfft2(ones({2, 3, 2}), 0);
       },
       "irfft2: expected n >= 1, got 0"},
      {[&] { map([](std::span<const Value> v) { return v[0]; }, std::initializer_list<Tensor>{}); },
       "map: expected a tensor at least, got none"},
      {[&] {
         Tensor w = ones({2});
         w.requires_grad();
         w.backward(ones({2}, Type::f64));
       },
       "backward: expected a seed of f32, got f64"},
      {[] { nn::Dense(-1, 3); }, "dense: expected inputs >= 1 and outputs >= 1, got -1 and 3"},
      {[] { nn::Dense(3, 0); }, "dense: expected inputs >= 1 and outputs >= 1, got 3 and 0"},
      {[] {
         nn::Dense(3, 2)(ones({2, 4}));
       },
       "dense: expected inputs (..., 3), got (2, 4)"},
  };
  for (const auto& row : rows) EXPECT_EQ(message(row.call), row.message);
}

TEST(Tensor, NoTensorIsSaidByEveryCall) {
  const Tensor none, a = ones({3, 4});
  const std::vector<double> kernel = {1};
  const std::pair<const char*, std::function<void()>> rows[] = {
      {"sum", [&] { sum(none); }},
      {"mean", [&] { mean(none); }},
      {"variance", [&] { variance(none); }},
      {"argmax", [&] { argmax(none); }},
      {"matmul", [&] { matmul(none, a); }},
      {"softmax", [&] { softmax(none); }},
      {"log_softmax", [&] { log_softmax(none); }},
      {"layer_norm", [&] { layer_norm(none); }},
      {"layer_norm", [&] { layer_norm(a, none, none); }},
      {"conv2d", [&] { conv2d(none, a); }},
      {"filter2d", [&] { filter2d(none, kernel, 1, 1); }},
      {"max_pool2d", [&] { max_pool2d(none, 1); }},
      {"avg_pool2d", [&] { avg_pool2d(none, 1); }},
      {"fft", [&] { fft(none); }},
      {"ifft", [&] { ifft(none); }},
      {"fft2", [&] { fft2(none); }},
      {"ifft2", [&] { ifft2(none); }},
      {"rfft", [&] { rfft(none); }},
      {"irfft", [&] { irfft(none, 3); }},
      {"rfft2", [&] { rfft2(none); }},
      {"irfft2", [&] { irfft2(none, 3); }},
      {"cosine_similarity", [&] { cosine_similarity(a, none); }},
      {"top_k", [&] { top_k(none, 1); }},
      {"concat",
       [&] {
         concat({a, none});
       }},
      {"stack",
       [&] {
         stack({none, a});
       }},
      {"split", [&] { split(none, {1}); }},
      {"take", [&] { take(a, none); }},
      {"embedding", [&] { embedding(none, a); }},
      {"pow", [&] { pow(none, 2); }},
      {"clamp", [&] { clamp(none, 0, 1); }},
      {"where", [&] { where(a, none, a); }},
      {"mse_loss", [&] { mse_loss(a, none); }},
      {"mae_loss", [&] { mae_loss(none, a); }},
      {"cross_entropy", [&] { cross_entropy(none, a); }},
      {"cross_entropy", [&] { cross_entropy(a, none); }},
      {"reshape", [&] { none.reshape({1}); }},
      {"slice", [&] { none.slice(0, 0, 0); }},
      {"permute", [&] { none.permute({0}); }},
      {"transpose", [&] { none.transpose(); }},
      {"broadcast_to", [&] { none.broadcast_to({1}); }},
      {"item", [&] { none.item(); }},
      {"evaluate", [&] { none.evaluate(); }},
      {"begin_read", [&] { none.begin_read(); }},
      {"backward", [&] { none.backward(); }},
      {"detach", [&] { none.detach(); }},
      {"dense", [&] { nn::Dense(3, 2)(none); }},
  };
  for (const auto& [name, call] : rows)
    EXPECT_EQ(message(call), std::string(name) + ": expected a tensor, got none");
}

TEST(Tensor, LongStepsAreOne) {
  const Tensor a = sample({3, 4});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(a.slice(0, 0, 3, kMost).values(), a.slice(0, 0, 1).values());
  EXPECT_EQ(a.slice(0, 1, 1, kMost).count(), 0);
  EXPECT_EQ(max_pool2d(a, 2, {.stride = kHuge}).values(),
            max_pool2d(a.slice(0, 0, 2).slice(1, 0, 2), 2).values());
  Tensor w = sample({5}).requires_grad();
  sum(w.slice(0, 1, 5, kMost)).backward();
  EXPECT_EQ(w.grad().values(), (std::vector<double>{0, 1, 0, 0, 0}));
}

TEST(Tensor, DenseTakesOneRow) {
  const nn::Dense dense(3, 2);
  const Tensor x = sample({3});
  EXPECT_EQ(dense(x).shape(), Shape{2});
  EXPECT_EQ(dense(x).values(), dense(x.reshape({1, 3})).values());
}

TEST(Tensor, SeedsOfNumbersTakeTheType) {
  Tensor w = sample({1}, 1, Type::f64).requires_grad();
  (w * 3.0).reshape({}).backward(Tensor(2.0));
  EXPECT_EQ(w.grad().type(), Type::f64);
  EXPECT_EQ(w.grad().item(), 6);
}

}  // namespace
}  // namespace topograd::ops::test
