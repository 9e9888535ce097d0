// What tensors must compute, wherever they are: run on the CPU and on a device.
#include "ops/tensor_cases.hpp"

#include "ops/tensor_checks.hpp"

#include <topograd/ops/backend.hpp>
#include <topograd/ops/nn/layers.hpp>
#include <topograd/ops/nn/optimizer.hpp>
#include <topograd/ops/tensor/autograd.hpp>
#include <topograd/ops/tensor/matmul.hpp>
#include <topograd/ops/tensor/reduce.hpp>
#include <topograd/ops/tensor/softmax.hpp>

#include <cmath>

namespace topograd::ops::test {
namespace {

constexpr double kF32 = 2e-6, kF64 = 1e-13;

double bound(Type type) { return type == Type::f64 ? kF64 : kF32; }

/// Numbers as the tensor holds them.
std::vector<double> held(const Tensor& t) { return t.to_cpu().values(); }

}  // namespace

void check_elementwise(const Device& device) {
  for (const Type type : {Type::f32, Type::f64}) {
    for (const std::int64_t n : {0, 1, 2, 31, 32, 33, 257}) {
      const Tensor a = sample({n}, 1, type).to(device), b = sample({n}, 2, type).to(device);
      const auto x = held(a), y = held(b);
      const Tensor fused = exp(-square(a)) * 3.0 + maximum(a, b) / 2.0 - tanh(b);
      std::vector<double> want;
      for (std::size_t k = 0; k < x.size(); ++k)
        want.push_back(std::exp(-x[k] * x[k]) * 3 + std::max(x[k], y[k]) / 2 - std::tanh(y[k]));
      expect_near(fused, want, bound(type), "fused " + std::to_string(n));
    }
  }
  // Broadcasting over views that are not contiguous: transposed, sliced, repeated.
  const Tensor a = sample({33, 31}).to(device), b = sample({31, 33, 2}, 2).to(device);
  const Tensor row = sample({33}, 3).to(device);
  const auto x = held(a), y = held(b), z = held(row);
  const Tensor mixed = a.transpose() * b.slice(2, 1, 2).reshape({31, 33}) + row;
  std::vector<double> want;
  for (std::size_t i = 0; i < 31; ++i)
    for (std::size_t j = 0; j < 33; ++j)
      want.push_back(x[j * 31 + i] * y[(i * 33 + j) * 2 + 1] + z[j]);
  expect_near(mixed, want, kF32, "views");
  const Tensor every = a.slice(0, 1, 33, 3).slice(1, 0, 31, 2).permute({1, 0});
  want.clear();
  for (std::size_t j = 0; j < 31; j += 2)
    for (std::size_t i = 1; i < 33; i += 3) want.push_back(x[i * 31 + j]);
  expect_near(every + 0.0, want, 0, "steps");
}

void check_reductions(const Device& device) {
  const Tensor a = sample({33, 5, 257}, 4).to(device);
  const auto x = held(a);
  std::vector<double> rows(33 * 5, 0), columns(257, 0), middle(33 * 257, 0);
  std::vector<double> most(33 * 5, -1e30), places(33 * 5, 0), least(257, 1e30);
  double total = 0;
  for (std::size_t i = 0; i < 33; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      for (std::size_t k = 0; k < 257; ++k) {
        const double v = x[(i * 5 + j) * 257 + k];
        total += v;
        rows[i * 5 + j] += v;
        columns[k] += v;
        middle[i * 257 + k] += v;
        if (v > most[i * 5 + j]) {
          most[i * 5 + j] = v;
          places[i * 5 + j] = static_cast<double>(k);
        }
        least[k] = std::min(least[k], v);
      }
    }
  }
  expect_near(sum(a), {total}, 1e-5, "all");
  expect_near(sum(a, {-1}), rows, 1e-5, "rows");
  expect_near(sum(a, {0, 1}), columns, 1e-5, "columns");
  expect_near(sum(a, {1}), middle, 1e-5, "middle");
  expect_near(max(a, {2}), most, 0, "max");
  expect_near(min(a, {0, 1}), least, 0, "min");
  expect_near(argmax(a), places, 0, "argmax");
  EXPECT_EQ(sum(a, {1}, true).shape(), (Shape{33, 1, 257}));
  expect_near(sum(zeros({0, 3}).to(device), {0}), {0, 0, 0}, 0, "none");
  const double nan = std::nan("");
  const Tensor b = tensor({1, nan, 3, 4, 4, 2}, {2, 3}).to(device);
  expect_near(max(b, {1}), {nan, 4}, 0, "NaN");
  expect_near(argmax(b), {1, 0}, 0, "place of NaN, first of equal ones");
}

void check_matmul(const Device& device) {
  struct Case {
    std::int64_t batch, m, k, n;
    bool a_transposed, b_transposed;
    Type type;
  };
  const Case cases[] = {
      {1, 1, 1, 1, false, false, Type::f32},    {1, 2, 31, 33, false, false, Type::f32},
      {3, 65, 33, 70, false, false, Type::f32}, {2, 33, 17, 31, true, false, Type::f32},
      {1, 130, 40, 67, false, true, Type::f32}, {2, 31, 32, 257, true, true, Type::f32},
      {2, 33, 31, 65, false, true, Type::f64},
  };
  for (const Case& c : cases) {
    Tensor a =
        sample(c.a_transposed ? Shape{c.batch, c.k, c.m} : Shape{c.batch, c.m, c.k}, 1, c.type)
            .to(device);
    Tensor b = sample(c.b_transposed ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2, c.type).to(device);
    if (c.a_transposed) a = a.transpose();
    if (c.b_transposed) b = b.transpose();
    const auto x = held(a), y = held(b);
    std::vector<double> want;
    for (std::int64_t i = 0; i < c.batch * c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
          sum +=
              x[static_cast<std::size_t>(i * c.k + k)] * y[static_cast<std::size_t>(k * c.n + j)];
        want.push_back(sum);
      }
    }
    const double epsilon = c.type == Type::f64 ? 0x1p-52 : 0x1p-23;
    expect_near(matmul(a, b), want, 4 * static_cast<double>(c.k) * epsilon,
                to_text({c.batch, c.m, c.k, c.n}));
  }
}

void check_rows(const Device& device) {
  for (const std::int64_t n : {1, 31, 33, 257, 600}) {
    const Tensor a = (sample({5, n}, 3).to(device) * 3.0).evaluate();
    const Tensor scale = sample({n}, 4).to(device), shift = sample({n}, 5).to(device);
    const auto x = held(a), s = held(scale), t = held(shift);
    std::vector<double> soft, logs, norms;
    for (std::size_t i = 0; i < 5; ++i) {
      const double* row = x.data() + i * static_cast<std::size_t>(n);
      double total = 0, mean = 0, squares = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        total += std::exp(row[k]);
        mean += row[k] / static_cast<double>(n);
      }
      for (std::int64_t k = 0; k < n; ++k)
        squares += (row[k] - mean) * (row[k] - mean) / static_cast<double>(n);
      for (std::int64_t k = 0; k < n; ++k) {
        soft.push_back(std::exp(row[k]) / total);
        logs.push_back(row[k] - std::log(total));
        const auto at = static_cast<std::size_t>(k);
        norms.push_back((row[k] - mean) / std::sqrt(squares + 1e-5) * s[at] + t[at]);
      }
    }
    expect_near(softmax(a), soft, 3e-6, "softmax " + std::to_string(n));
    expect_near(log_softmax(a), logs, 3e-6, "log_softmax " + std::to_string(n));
    // One entry: 0 / sqrt(0 + epsilon), whatever rounding leaves of the mean.
    expect_near(layer_norm(a, scale, shift), norms, 2e-5, "layer_norm " + std::to_string(n));
  }
}

void check_half(const Device& device) {
  const Tensor a = sample({33, 31}, 6).to(device), b = sample({31, 65}, 7).to(device);
  const Tensor ha = a.to(Type::f16), hb = b.to(Type::f16);
  // 11 bits: half a unit in the last place of numbers below 2 is 2^-11.
  expect_near(ha.to(Type::f32), held(a), 0x1p-11, "rounded");
  const auto x = held(ha), y = held(hb);
  std::vector<double> want;
  for (std::size_t i = 0; i < 33; ++i) {
    for (std::size_t j = 0; j < 65; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 31; ++k) sum += x[i * 31 + k] * y[k * 65 + j];
      want.push_back(sum);
    }
  }
  expect_near(matmul(ha, hb), want, 1e-5, "product");
  const Tensor twice = ha.slice(0, 1, 33) * 2.0;
  EXPECT_EQ(twice.type(), Type::f32);
  std::vector<double> doubled;
  for (std::size_t k = 31; k < x.size(); ++k) doubled.push_back(2 * x[k]);
  expect_near(twice, doubled, 0, "from the middle of a word");
}

void check_training(const Device& device) {
  // A network that learns the sign of a product: no line separates it.
  const Tensor x = sample({257, 2}, 8).to(device);
  const auto v = held(x);
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
      EXPECT_LE(held_now, held_early) << "step " << step;  // the last one holds its loss
    }
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.2);
}

}  // namespace topograd::ops::test
