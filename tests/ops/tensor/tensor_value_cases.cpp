// Losses, activations, real and two-dimensional transforms and the tiles of products against plain
// formulas, on one device.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/matmul/matmul.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace topograd::ops::test {
namespace {

using Numbers = std::vector<double>;
using Complex = std::complex<long double>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

double mean_of(const Numbers& a, const Numbers& b, const std::function<double(double, double)>& f) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += f(a[k], b[k]);
  return sum / static_cast<double>(a.size());
}

/// Mean over rows of -log of the probability of the class, or of the classes' mean by
/// probabilities.
double cross_entropy_of(const Numbers& logits, const Numbers& targets, std::size_t classes) {
  const std::size_t rows = logits.size() / classes;
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const double* row = logits.data() + r * classes;
    double total = 0;
    for (std::size_t c = 0; c < classes; ++c) total += std::exp(row[c]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double wanted =
          targets.size() == rows ? (targets[r] == double(c) ? 1 : 0) : targets[r * classes + c];
      loss -= wanted * (row[c] - std::log(total));
    }
  }
  return loss / static_cast<double>(rows);
}

/// Y_k = Σ_j z_j e^(sign 2πi jk/n) of n numbers `step` apart.
std::vector<Complex> dft(const std::vector<Complex>& z, std::size_t first, std::size_t step,
                         std::size_t n, int sign) {
  std::vector<Complex> out;
  for (std::size_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const long double angle = sign * 2 * std::numbers::pi_v<long double> *
                                static_cast<long double>(j * k % n) / static_cast<long double>(n);
      sum += z[first + j * step] * std::polar(1.0L, angle);
    }
    out.push_back(sum);
  }
  return out;
}

/// Rows, then columns of an image.
std::vector<Complex> dft2(std::vector<Complex> z, std::size_t rows, std::size_t columns, int sign) {
  for (std::size_t r = 0; r < rows; ++r)
    std::ranges::copy(dft(z, r * columns, 1, columns, sign),
                      z.begin() + static_cast<std::ptrdiff_t>(r * columns));
  for (std::size_t c = 0; c < columns; ++c) {
    const std::vector<Complex> column = dft(z, c, columns, rows, sign);
    for (std::size_t r = 0; r < rows; ++r) z[r * columns + c] = column[r];
  }
  return z;
}

std::vector<Complex> pairs(const Numbers& numbers) {
  std::vector<Complex> out;
  for (std::size_t k = 0; k < numbers.size(); k += 2) out.emplace_back(numbers[k], numbers[k + 1]);
  return out;
}

/// The first `kept` of each `length`, as pairs of numbers, times a factor.
Numbers numbers_of(const std::vector<Complex>& z, std::size_t length, std::size_t kept,
                   long double factor = 1) {
  Numbers out;
  for (std::size_t k = 0; k < z.size(); ++k) {
    if (k % length >= kept) continue;
    out.push_back(static_cast<double>(z[k].real() * factor));
    out.push_back(static_cast<double>(z[k].imag() * factor));
  }
  return out;
}

/// |C - A B| <= k ε Σ |a| |b|, entry by entry, as in docs/tensors.md.
void check_product(const Device& device, const Shape& sizes, bool a_transposed, bool b_transposed,
                   Type type) {
  const std::int64_t rows = sizes[0], depth = sizes[1], columns = sizes[2];
  Tensor a = sample(a_transposed ? Shape{depth, rows} : Shape{rows, depth}, 21);
  Tensor b = sample(b_transposed ? Shape{columns, depth} : Shape{depth, columns}, 22);
  a = a.to(type).to(device);
  b = b.to(type).to(device);
  if (a_transposed) a = a.transpose();
  if (b_transposed) b = b.transpose();
  const Numbers x = held(a), y = held(b), got = held(matmul(a, b));
  const double epsilon = type == Type::f64 ? 0x1p-52 : 0x1p-23;
  ASSERT_EQ(got.size(), static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j) {
      double sum = 0, size = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k) {
        const double term = x[i * static_cast<std::size_t>(depth) + k] *
                            y[k * static_cast<std::size_t>(columns) + j];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(got[i * static_cast<std::size_t>(columns) + j], sum,
                  static_cast<double>(depth) * epsilon * size)
          << name(type) << " " << to_text(sizes) << a_transposed << b_transposed << " at " << i
          << ", " << j;
    }
  }
}

}  // namespace

void check_losses(const Device& device) {
  for (const Type type : {Type::f32, Type::f64}) {
    const double bound = type == Type::f64 ? 1e-13 : 2e-6;
    for (const std::int64_t n : {1, 33, 1003}) {
      const Tensor a = (sample({n}, 1, type).to(device) * 3.0).evaluate();
      const Tensor b = sample({n}, 2, type).to(device);
      const Tensor chance = ((b + 2.0) / 4.0).evaluate();
      const Numbers x = held(a), y = held(b), p = held(chance);
      const struct {
        const char* what;
        Tensor got;
        double want;
      } rows[] = {
          {"mse", mse_loss(a, b),
           mean_of(x, y, [](double u, double v) { return (u - v) * (u - v); })},
          {"mae", mae_loss(a, b),
           mean_of(x, y, [](double u, double v) { return std::abs(u - v); })},
          {"huber", huber_loss(a, b, 1.5),
           mean_of(x, y,
                   [](double u, double v) {
                     const double e = std::abs(u - v);
                     return e <= 1.5 ? e * e / 2 : 1.5 * (e - 0.75);
                   })},
          {"tukey", tukey_loss(a, b, 2.5),
           mean_of(x, y,
                   [](double u, double v) {
                     const double t = (u - v) / 2.5, inside = 1 - t * t;
                     return 2.5 * 2.5 / 6 * (std::abs(t) <= 1 ? 1 - inside * inside * inside : 1);
                   })},
          {"binary", binary_cross_entropy(a, chance),
           mean_of(x, p,
                   [](double u, double v) {
                     return -(v * std::log(logistic(u)) + (1 - v) * std::log(1 - logistic(u)));
                   })},
      };
      for (const auto& row : rows)
        expect_near(row.got, {row.want}, bound, row.what + (" of " + std::to_string(n)));
    }
    const auto entropy = [&](double logit, double target) {
      return binary_cross_entropy(tensor({logit}, {1}, type).to(device),
                                  tensor({target}, {1}, type).to(device));
    };
    for (const double sure : {40.0, 60.0}) {  // remainders of sure and right predictions
      expect_near(entropy(sure, 1) * std::exp(sure), {1}, bound, "sure");
      expect_near(entropy(-sure, 0) * std::exp(sure), {1}, bound, "sure");
      expect_near(entropy(sure, 0), {sure}, bound, "sure and wrong");
      expect_near(entropy(-sure, 1), {sure}, bound, "sure and wrong");
    }
    const Tensor logits = (sample({33, 7}, 3, type).to(device) * 4.0).evaluate();
    Numbers classes, shares;
    for (int k = 0; k < 33; ++k) classes.push_back(k * 5 % 7);
    for (int k = 0; k < 33 * 7; ++k) shares.push_back((k % 7 + 1) / 28.0);
    const Tensor chosen = tensor(classes, {33}, type), soft = tensor(shares, {33, 7}, type);
    expect_near(cross_entropy(logits, chosen.to(device)),
                {cross_entropy_of(held(logits), classes, 7)}, bound, "classes");
    expect_near(cross_entropy(logits, soft.to(device)),
                {cross_entropy_of(held(logits), held(soft), 7)}, bound, "shares of classes");
  }
}

void check_activations(const Device& device) {
  const struct {
    const char* what;
    Tensor (*call)(const Tensor&);
    double (*want)(double);
  } rows[] = {
      {"relu", [](const Tensor& x) { return relu(x); }, [](double x) { return x > 0 ? x : 0; }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.125); },
       [](double x) { return x > 0 ? x : 0.125 * x; }},
      {"elu", [](const Tensor& x) { return elu(x, 1.5); },
       [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); },
       [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, logistic},
      {"tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }, [](double x) { return x * logistic(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); },
       [](double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }},
  };
  for (const Type type : {Type::f32, Type::f64}) {
    Numbers x = numbers(257, 4);
    for (double& v : x) v *= 3;
    for (const double v : {0.0, 1e-6, -1e-6, 30.0, -30.0}) x.push_back(v);
    const Tensor a = tensor(x, {262}, type).to(device);
    x = held(a);
    for (const auto& row : rows) {
      Numbers want;
      for (const double v : x) want.push_back(row.want(v));
      expect_near(row.call(a), want, type == Type::f64 ? 1e-13 : 1e-6, row.what);
    }
  }
}

void check_transforms(const Device& device) {
  for (const Type type : {Type::f32, Type::f64}) {
    const double bound = type == Type::f64 ? 1e-13 : 1e-5;
    for (const std::int64_t n : {1, 2, 3, 5, 7, 9, 11, 15, 16, 33, 34, 60}) {
      const auto length = static_cast<std::size_t>(n), kept = length / 2 + 1;
      const Tensor x = sample({2, n}, 12, type).to(device);
      const Numbers values = held(x);
      const std::vector<Complex> z(values.begin(), values.end());
      std::vector<Complex> want;
      for (std::size_t row = 0; row < 2; ++row)
        for (const Complex& y : dft(z, row * length, 1, length, -1)) want.push_back(y);
      const Tensor spectrum = rfft(x);
      EXPECT_EQ(spectrum.shape(), (Shape{2, n / 2 + 1, 2}));
      const std::string what = " of " + std::to_string(n);
      expect_near(spectrum, numbers_of(want, length, kept), bound, "rfft" + what);
      expect_near(
          irfft(tensor(numbers_of(want, length, kept), {2, n / 2 + 1, 2}, type).to(device), n),
          values, bound, "irfft" + what);
    }
    // Real transforms by complex ones of half the length: in one pass, in several, by Bluestein's
    // algorithm.
    for (const int n : {1000, 4096, 20'000, 2 * 4099}) {
      const Tensor x = sample({3, n}, 14, type).to(device);
      const Numbers values = held(x);
      Numbers whole(2 * values.size());
      for (std::size_t k = 0; k < values.size(); ++k) whole[2 * k] = values[k];
      const Tensor want = fft(tensor(whole, {3, n, 2}, type).to(device)).slice(-2, 0, n / 2 + 1);
      expect_near(rfft(x), held(want), bound * std::sqrt(n), "rfft of " + std::to_string(n));
    }
    for (const auto& [rows, columns] : {std::pair{3, 5}, {7, 9}, {1, 11}, {13, 1}, {4, 6}}) {
      const Tensor image = sample({rows, columns, 2}, 13, type).to(device);
      const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(columns);
      const std::vector<Complex> z = pairs(held(image));
      const std::string what = " of " + std::to_string(rows) + " x " + std::to_string(columns);
      expect_near(fft2(image), numbers_of(dft2(z, m, n, -1), n, n), bound, "fft2" + what);
      expect_near(ifft2(image),
                  numbers_of(dft2(z, m, n, 1), n, n, 1.0L / static_cast<long double>(m * n)), bound,
                  "ifft2" + what);
    }
  }
}

void check_product_tiles(const Device& device) {
  // Whole tiles, edges of one row and column, and mostly empty tiles.
  const Shape sizes[] = {{128, 16, 128}, {129, 17, 257}, {70, 40, 130}, {256, 8, 64}};
  for (const auto tiles : {detail::MatmulTiles::small, detail::MatmulTiles::large}) {
    detail::force_matmul_tiles(tiles);
    for (const Shape& size : sizes) {
      for (const int turned : {0, 1, 2, 3})
        check_product(device, size, turned % 2 != 0, turned / 2 != 0, Type::f32);
      for (const bool turned : {false, true})
        check_product(device, size, turned, turned, Type::f16);
    }
  }
  // More tiles of rows and more batches than a launch takes.
  detail::force_matmul_tiles(detail::MatmulTiles::small, 2);
  for (const Shape& size : sizes) {
    for (const int turned : {0, 1, 2, 3})
      for (const Type type : {Type::f32, Type::f16})
        check_product(device, size, turned % 2 != 0, turned / 2 != 0, type);
  }
  const Tensor a = sample({5, 130, 7}, 3), b = sample({5, 7, 9}, 4);
  const Numbers want = held(matmul(a, b));
  expect_near(matmul(a.to(device), b.to(device)), want, 1e-5, "bands of batches");
  detail::force_matmul_tiles(detail::MatmulTiles::chosen);
  // Too thin for tiles.
  for (const Shape& size : {Shape{300, 3, 2}, Shape{4, 16, 513}, Shape{1, 1, 1}, Shape{70, 90, 8}})
    for (const int turned : {0, 1, 2, 3})
      for (const Type type : {Type::f32, Type::f16})
        check_product(device, size, turned % 2 != 0, turned / 2 != 0, type);
  // With cooperative matrices if the device has them: whole tiles, and edges.
  for (const Shape& size : {Shape{128, 64, 256}, Shape{72, 24, 264}})
    for (const int turned : {0, 1, 2, 3})
      check_product(device, size, turned % 2 != 0, turned / 2 != 0, Type::f16);
}

}  // namespace topograd::ops::test
