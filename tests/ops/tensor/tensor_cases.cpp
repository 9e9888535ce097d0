// Results of tensor operations, for the CPU and for a device.
#include "tensor_cases.hpp"

#include "tensor_checks.hpp"

#include "../../../ops/tensor/arrays.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace topograd::ops::test {
namespace {

constexpr double kF32 = 2e-6, kF64 = 1e-13;

constexpr std::int64_t kSizes[] = {0, 1, 2, 31, 32, 33, 255, 256, 257, 1'000'003};

double bound(Type type) { return type == Type::f64 ? kF64 : kF32; }

}  // namespace

void check_elementwise(const Device& device) {
  for (const Type type : {Type::f32, Type::f64}) {
    for (const std::int64_t n : kSizes) {
      // From the middle of shared memory.
      const Tensor a = sample({n + 5}, 1, type).to(device).slice(0, 3, n + 3);
      const Tensor b = sample({n + 1}, 2, type).to(device).slice(0, 1, n + 1);
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
  // Powers of negative numbers, limits, and choices that broadcast; sides not taken are ignored.
  const double nan = std::nan("");
  const Tensor c = tensor({-2, -0.5, 0, 3}, {4}).to(device);
  expect_near(pow(c, 2), {4, 0.25, 0, 9}, kF32, "squares");
  expect_near(pow(c, 3.0), {-8, -0.125, 0, 27}, kF32, "cubes");
  expect_near(pow(c, 0.0), {1, 1, 1, 1}, kF32, "ones");
  expect_near(pow(2.0, c), {0.25, std::sqrt(0.5), 1, 8}, kF32, "powers of two");
  EXPECT_TRUE(std::isnan(pow(c, 0.5).values()[0]));
  expect_near(clamp(c, -1, 2), {-1, -0.5, 0, 2}, 0, "clamp");
  EXPECT_TRUE(std::isnan(clamp(tensor({nan}, {1}).to(device), -1, 2).item()));
  expect_near(where(less(c, 0.0), -1.0, sqrt(c)), {-1, -1, 0, std::sqrt(3.0)}, kF32, "where");
  EXPECT_EQ(where(tensor({1, 0}, {2, 1}).to(device), c, nan).shape(), (Shape{2, 4}));
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
  for (const std::int64_t n : kSizes) {
    if (n == 0) continue;
    const Tensor some = sample({n + 3}, 5).to(device).slice(0, 2, n + 2);
    const auto v = held(some);
    const auto least_of_all = std::ranges::min_element(v),
               most_of_all = std::ranges::max_element(v);
    // Error of f32, and of f32 sums on devices.
    const double error = 1e-6 * std::sqrt(static_cast<double>(n)) * 4;
    EXPECT_NEAR(sum(some).item(), std::accumulate(v.begin(), v.end(), 0.0), error) << n;
    EXPECT_EQ(min(some).item(), *least_of_all) << n;
    EXPECT_EQ(max(some).item(), *most_of_all) << n;
    EXPECT_EQ(argmin(some).item(), static_cast<double>(least_of_all - v.begin())) << n;
    EXPECT_EQ(argmax(some).item(), static_cast<double>(most_of_all - v.begin())) << n;
  }
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

/// −∞ masks an entry; +∞, NaN and a row that is masked as a whole give NaN.
static void check_masked_rows(const Device& device) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const std::size_t n : {4, 600}) {
    std::vector<double> rows(4 * n, -inf), soft(4 * n, nan), logs(4 * n, nan);
    for (std::size_t k = 0; k < n; ++k) soft[k] = 0, logs[k] = -inf;
    rows[1] = 0, soft[1] = 0.25, logs[1] = std::log(0.25);
    rows[2] = std::log(3.0), soft[2] = 0.75, logs[2] = std::log(0.75);
    rows[n] = 1, rows[n + 3] = inf;
    rows[2 * n + 2] = nan;
    const Tensor a = tensor(rows, {4, static_cast<std::int64_t>(n)}).to(device);
    expect_near(softmax(a), soft, 3e-6, "masked softmax");
    expect_near(log_softmax(a), logs, 3e-6, "masked log_softmax");
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
    // One entry: 0 / sqrt(0 + epsilon), for any rounding error of the mean.
    expect_near(layer_norm(a, scale, shift), norms, 2e-5, "layer_norm " + std::to_string(n));
  }
  check_masked_rows(device);
}

namespace {

/// Σ z_j e^(-2πi jk/n) of pairs, in long double.
std::vector<double> dft(const std::vector<double>& z) {
  const std::size_t n = z.size() / 2;
  std::vector<double> out;
  for (std::size_t k = 0; k < n; ++k) {
    long double re = 0, im = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const long double angle = 2 * std::numbers::pi_v<long double> *
                                static_cast<long double>(j * k % n) / static_cast<long double>(n);
      re += z[2 * j] * std::cos(angle) + z[2 * j + 1] * std::sin(angle);
      im += z[2 * j + 1] * std::cos(angle) - z[2 * j] * std::sin(angle);
    }
    out.push_back(static_cast<double>(re));
    out.push_back(static_cast<double>(im));
  }
  return out;
}

/// Two passes, large and small ones, and three: some bins in long double, the others by Parseval's
/// theorem.
void check_long_fft(const Device& device, std::int64_t n, Type type) {
  const Tensor longer = sample({n, 2}, 10, type).to(device);
  const auto spectrum = held(fft(longer)), v = held(longer);
  const auto length = static_cast<std::size_t>(n);
  const bool wide = type == Type::f64;
  const std::string what = "fft of " + std::to_string(n);
  // ε log2 n of the bins' root mean square, which is √n times that of the numbers, 1.6.
  const double error = (wide ? 0x1p-52 : 0x1p-23) * std::log2(double(n)) * std::sqrt(double(n));
  for (const std::size_t k : {std::size_t{1}, std::size_t{1234}, length / 2 + 77}) {
    long double re = 0, im = 0;
    for (std::size_t j = 0; j < length; ++j) {
      const long double angle = 2 * std::numbers::pi_v<long double> *
                                static_cast<long double>(j * k % length) /
                                static_cast<long double>(n);
      const long double c = std::cos(angle), s = std::sin(angle);
      re += v[2 * j] * c + v[2 * j + 1] * s;
      im += v[2 * j + 1] * c - v[2 * j] * s;
    }
    EXPECT_NEAR(spectrum[2 * k], static_cast<double>(re), 1.6 * error) << what << ", bin " << k;
    EXPECT_NEAR(spectrum[2 * k + 1], static_cast<double>(im), 1.6 * error) << what << ", bin " << k;
  }
  long double energy = 0, total = 0;
  for (const double number : v) energy += number * number;
  for (const double number : spectrum) total += number * number;
  EXPECT_NEAR(static_cast<double>(total / energy / static_cast<long double>(n)), 1,
              wide ? 1e-13 : 1e-6)
      << what;
}

}  // namespace

void check_fft(const Device& device) {
  // Sums as written, one pass with butterflies of every size, Bluestein's algorithm.
  for (const std::int64_t n : {1, 2, 5, 9, 14, 31, 32, 47, 64, 98, 105, 257, 1000}) {
    for (const Type type : {Type::f32, Type::f64}) {
      if (type == Type::f64 && (n < 31 || n == 64 || n == 98 || n == 1000)) continue;
      const Tensor z = sample({3, n, 2}, 9, type).to(device);
      const auto x = held(z);
      std::vector<double> want;
      for (std::size_t row = 0; row < 3; ++row) {
        const auto size = static_cast<std::ptrdiff_t>(2 * n),
                   at = static_cast<std::ptrdiff_t>(row) * size;
        const auto y = dft({x.begin() + at, x.begin() + at + size});
        want.insert(want.end(), y.begin(), y.end());
      }
      const double error = (type == Type::f64 ? 2e-14 : 3e-6) * std::sqrt(static_cast<double>(n));
      expect_near(fft(z), want, error, "fft of " + std::to_string(n));
      expect_near(ifft(fft(z)), x, type == Type::f64 ? 1e-14 : 2e-6,
                  "back from " + std::to_string(n));
    }
  }
  for (const std::int64_t n : {16384, 30000, 16807, 131072, 1 << 18, 1 << 19, 1'000'000, 1 << 20})
    check_long_fft(device, n, Type::f32);
  check_long_fft(device, 30000, Type::f64);
  for (const std::int64_t n : {5, 8}) {
    const Tensor image = sample({2, 6, n}, 11).to(device);
    const Tensor spectrum = rfft2(image);
    EXPECT_EQ(spectrum.shape(), (Shape{2, 6, n / 2 + 1, 2}));
    expect_near(irfft2(spectrum, n), held(image), 2e-6, "real image");
    double sum = 0;
    for (std::int64_t k = 0; k < 6 * n; ++k) sum += held(image)[static_cast<std::size_t>(k)];
    EXPECT_NEAR(held(spectrum)[0], sum, 1e-5);
  }
}

void check_search(const Device& device) {
  const Tensor targets = sample({33, 31}, 15).to(device), queries = sample({2, 31}, 16).to(device);
  const auto t = held(targets), q = held(queries);
  std::vector<double> want;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 33; ++j) {
      double product = 0, a = 0, b = 0;
      for (std::size_t k = 0; k < 31; ++k) {
        product += q[i * 31 + k] * t[j * 31 + k];
        a += q[i * 31 + k] * q[i * 31 + k];
        b += t[j * 31 + k] * t[j * 31 + k];
      }
      want.push_back(product / std::sqrt(a * b));
    }
  }
  expect_near(cosine_similarity(queries, targets), want, 1e-6, "cosines");
  expect_near(cosine_similarity(zeros({31}).to(device), targets), std::vector<double>(33, 0), 0,
              "of nothing");
  Tensor nothing = zeros({31}).to(device);
  const Tensor apart = cosine_similarity(nothing.requires_grad(), targets);
  expect_near(apart, std::vector<double>(33, 0), 0, "of nothing, with derivatives");
  sum(apart).backward();
  expect_near(nothing.grad(), std::vector<double>(31, 0), 0, "derivative at nothing");
  // More queries than a launch has workgroups.
  const Tensor many = sample({65'549, 2}, 17).to(device), axes = tensor({1, 0, 0, 1}, {2, 2});
  std::vector<double> sides = held(many);
  for (std::size_t k = 0; k < sides.size(); k += 2) {
    const double length = std::hypot(sides[k], sides[k + 1]);
    sides[k] /= length;
    sides[k + 1] /= length;
  }
  expect_near(cosine_similarity(many, axes.to(device)), sides, 1e-6, "many queries");
  // Smaller numbers are denormal, which a device may flush to 0.
  for (const double size : {1e-37, 1e-25, 1e25, 3e37}) {
    const Tensor far = tensor({3 * size, 4 * size}, {2}).to(device);
    expect_near(cosine_similarity(far, tensor({1, 0, 0, 1e-30, 1e30, 0, 0, 0}, {4, 2}).to(device)),
                {0.6, 0.8, 0.6, 0}, 1e-6, "of " + std::to_string(size));
  }
  // Rows that are searched in one piece, in several, and sorted.
  const std::pair<std::int64_t, std::size_t> sizes[] = {
      {7, 4}, {20'011, 4}, {3'001, 3'001}, {20'011, 2'500}};
  for (const auto& [n, count] : sizes) {
    std::vector<double> x = numbers(2 * n, 17);
    x[0] = 0.0, x[1] = -0.0;
    x[3] = x[5] = 100;
    x[static_cast<std::size_t>(n) + 6] = std::nan("");
    const TopK top = top_k(tensor(x, {2, n}).to(device), static_cast<std::int64_t>(count));
    const auto places = held(top.indices), found = held(top.values);
    for (std::size_t row = 0; row < 2; ++row) {
      std::vector<std::size_t> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), std::size_t{0});
      const double* from = x.data() + row * order.size();
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return !std::isnan(from[b]) && (std::isnan(from[a]) || from[a] > from[b]);
      });
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t at = row * count + k;
        ASSERT_EQ(places[at], static_cast<double>(order[k])) << n << " " << row << " " << k;
        const bool same =
            found[at] == from[order[k]] || (std::isnan(found[at]) && std::isnan(from[order[k]]));
        ASSERT_TRUE(same) << found[at];
      }
    }
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

void check_random(const Device& device) {
  const Tensor u = rand({3, 33}, 7, Type::f32, device);
  EXPECT_EQ(u.placed(), device);
  expect_near(u, rand({3, 33}, 7, Type::f32, Device::cpu()).values(), 0, "uniform");
  const std::int64_t n = 100'003;
  const Tensor x = randn({n}, 8, Type::f64, device);
  expect_near(x, randn({n}, 8, Type::f64, Device::cpu()).values(), 1e-14, "normal");
  EXPECT_NEAR(mean(x).item(), 0, 5 / std::sqrt(double(n)));
  EXPECT_NEAR(variance(x).item(), 1, 5 * std::sqrt(2 / double(n)));
  EXPECT_EQ(rand({0}, 1, Type::f16, device).count(), 0);
  // Arrays and tensors share their numbers.
  const Array<float> shared = array_of<float>(u.transpose());
  EXPECT_EQ(shared.size(), 99u);
  EXPECT_EQ(shared.read()[1], static_cast<float>(u.values()[33]));
  EXPECT_EQ(tensor(shared, {99}).placed(), device);
}

}  // namespace topograd::ops::test
