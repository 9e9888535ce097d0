// Tensor operations by their definitions: plain loops in double, long sums in long double.
#include "tensor_references.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace topograd::ops::test::reference {
namespace {

std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

/// Calls f(y, x, value) for the taps of a window inside an image; its corner is at (y, x).
template <class F>
void for_window(const double* image, std::int64_t height, std::int64_t width, std::int64_t y,
                std::int64_t x, std::int64_t rows, std::int64_t columns, const F& f) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (y + i >= 0 && y + i < height && x + j >= 0 && x + j < width)
        f(i, j, image[(y + i) * width + x + j]);
}

}  // namespace

Numbers softmax(const Numbers& x, std::int64_t n, std::int64_t step) {
  Numbers out(x.size());
  if (n == 0) return out;
  const std::size_t length = at(n), apart = at(step);
  for (std::size_t block = 0; block < x.size(); block += length * apart) {
    for (std::size_t first = block; first < block + apart; ++first) {
      double total = 0;
      for (std::size_t k = 0; k < length; ++k) total += std::exp(x[first + k * apart]);
      for (std::size_t k = 0; k < length; ++k)
        out[first + k * apart] = std::exp(x[first + k * apart]) / total;
    }
  }
  return out;
}

Numbers layer_norm(const Numbers& x, const Numbers& scale, const Numbers& shift, std::int64_t n) {
  Numbers out;
  for (std::size_t row = 0; row < x.size(); row += at(n)) {
    double mean = 0, variance = 0;
    for (std::size_t k = 0; k < at(n); ++k) mean += x[row + k];
    mean /= static_cast<double>(n);
    for (std::size_t k = 0; k < at(n); ++k) variance += (x[row + k] - mean) * (x[row + k] - mean);
    variance /= static_cast<double>(n);
    for (std::size_t k = 0; k < at(n); ++k)
      out.push_back((x[row + k] - mean) / std::sqrt(variance + 1e-5) * scale[k] + shift[k]);
  }
  return out;
}

Numbers mean(const std::vector<Numbers>& x, const std::function<double(double, double)>& f) {
  long double sum = 0;
  for (std::size_t k = 0; k < x[0].size(); ++k) sum += f(x[0][k], x[1][k]);
  return {static_cast<double>(sum / static_cast<long double>(x[0].size()))};
}

Numbers fold(const Numbers& x, const Shape& shape, std::size_t axis, Fold fold) {
  std::size_t before = 1, after = 1;
  const std::size_t n = at(shape[axis]);
  for (std::size_t k = 0; k < shape.size(); ++k)
    (k < axis ? before : after) *= k == axis ? 1 : at(shape[k]);
  Numbers out;
  for (std::size_t i = 0; i < before; ++i) {
    for (std::size_t j = 0; j < after; ++j) {
      const auto value = [&](std::size_t k) { return x[(i * n + k) * after + j]; };
      long double sum = 0, squares = 0;
      std::size_t most = 0, least = 0;
      for (std::size_t k = 0; k < n; ++k) {
        sum += value(k);
        if (value(k) > value(most)) most = k;
        if (value(k) < value(least)) least = k;
      }
      const long double mean = sum / static_cast<long double>(n);
      for (std::size_t k = 0; k < n; ++k) squares += (value(k) - mean) * (value(k) - mean);
      switch (fold) {
        case Fold::sum: out.push_back(static_cast<double>(sum)); break;
        case Fold::mean: out.push_back(static_cast<double>(mean)); break;
        case Fold::variance: out.push_back(static_cast<double>(squares / n)); break;
        case Fold::max: out.push_back(value(most)); break;
        case Fold::min: out.push_back(value(least)); break;
        case Fold::argmax: out.push_back(static_cast<double>(most)); break;
        case Fold::argmin: out.push_back(static_cast<double>(least)); break;
      }
    }
  }
  return out;
}

Numbers matmul(const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t k, std::int64_t n) {
  Numbers out(at(m * n), 0);
  for (std::size_t i = 0; i < at(m); ++i)
    for (std::size_t l = 0; l < at(k); ++l)
      for (std::size_t j = 0; j < at(n); ++j)
        out[i * at(n) + j] += a[i * at(k) + l] * b[l * at(n) + j];
  return out;
}

Numbers cosines(const Numbers& queries, const Numbers& targets, std::int64_t d) {
  Numbers out;
  for (std::size_t q = 0; q < queries.size(); q += at(d)) {
    for (std::size_t t = 0; t < targets.size(); t += at(d)) {
      double product = 0, a = 0, b = 0;
      for (std::size_t k = 0; k < at(d); ++k) {
        product += queries[q + k] * targets[t + k];
        a += queries[q + k] * queries[q + k];
        b += targets[t + k] * targets[t + k];
      }
      out.push_back(product / std::sqrt(a * b));
    }
  }
  return out;
}

Numbers largest(const Numbers& x, std::int64_t n, std::int64_t k) {
  Numbers out;
  for (std::size_t row = 0; row < x.size(); row += at(n)) {
    Numbers sorted(x.begin() + static_cast<std::ptrdiff_t>(row),
                   x.begin() + static_cast<std::ptrdiff_t>(row) + n);
    std::ranges::sort(sorted, std::greater());
    sorted.resize(at(std::min(n, k)));
    out.insert(out.end(), sorted.begin(), sorted.end());
  }
  return out;
}

Numbers conv2d(const Numbers& image, const Numbers& weights) {
  const auto n = static_cast<std::int64_t>(image.size() / 10);
  Numbers out;
  for (std::int64_t o = 0; o < 3; ++o)
    for (std::int64_t y = 0; y < n; ++y)
      for (std::int64_t x = 0; x < 6; ++x) {
        double sum = 0;
        for (std::int64_t c = 0; c < 2; ++c)
          for_window(image.data() + c * n * 5, n, 5, y - 1, x - 1, 3, 2,
                     [&](std::int64_t i, std::int64_t j, double v) {
                       sum += v * weights[at(((o * 2 + c) * 3 + i) * 2 + j)];
                     });
        out.push_back(sum);
      }
  return out;
}

const Numbers kFilter = {1, 2, 3, 4, 5, 6, 7, 8, 10};

Numbers filter2d(const Numbers& image) {
  const auto n = static_cast<std::int64_t>(image.size() / 5);
  Numbers out;
  for (std::int64_t y = 0; y < n; ++y)
    for (std::int64_t x = 0; x < 5; ++x) {
      double sum = 0;
      for (std::int64_t k = 0; k < 9; ++k)
        sum += kFilter[at(k)] * image[at(std::clamp<std::int64_t>(y + k / 3 - 1, 0, n - 1) * 5 +
                                         std::clamp<std::int64_t>(x + k % 3 - 1, 0, 4))];
      out.push_back(sum);
    }
  return out;
}

Numbers pool(const Numbers& image, bool largest) {
  const auto n = static_cast<std::int64_t>(image.size() / 9);
  Numbers out;
  for (std::int64_t y = 0; y < (n - 1) / 2 + 1; ++y)
    for (std::int64_t x = 0; x < 5; ++x) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for_window(image.data(), n, 9, 2 * y - 1, 2 * x - 1, 3, 3,
                 [&](std::int64_t, std::int64_t, double v) {
                   most = std::max(most, v);
                   sum += v;
                 });
      out.push_back(largest ? most : sum / 9);
    }
  return out;
}

Numbers dft(const Numbers& z, std::int64_t n, int sign) {
  using Complex = std::complex<long double>;
  std::vector<Complex> roots;
  for (std::int64_t k = 0; k < n; ++k)
    roots.push_back(
        std::polar(1.0L, sign * 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) /
                             static_cast<long double>(n)));
  const long double factor = sign > 0 ? 1.0L / static_cast<long double>(n) : 1;
  Numbers out;
  for (std::size_t row = 0; row < z.size(); row += 2 * at(n)) {
    for (std::size_t k = 0; k < at(n); ++k) {
      Complex sum = 0;
      for (std::size_t j = 0; j < at(n); ++j)
        sum += Complex(z[row + 2 * j], z[row + 2 * j + 1]) * roots[j * k % at(n)];
      out.push_back(static_cast<double>(sum.real() * factor));
      out.push_back(static_cast<double>(sum.imag() * factor));
    }
  }
  return out;
}

Numbers rdft(const Numbers& x, std::int64_t n) {
  Numbers pairs;
  for (const double v : x) {
    pairs.push_back(v);
    pairs.push_back(0);
  }
  const Numbers whole = dft(pairs, n, -1);
  Numbers out;
  for (std::size_t k = 0; k < whole.size(); ++k)
    if (k % (2 * at(n)) < 2 * at(n / 2 + 1)) out.push_back(whole[k]);
  return out;
}

namespace {

/// Transforms (..., m, n) pairs along the axis before the last.
Numbers down(const Numbers& z, std::int64_t m, std::int64_t n, int sign) {
  const std::size_t rows = at(m), columns = at(n);
  Numbers out(z.size()), line(2 * rows);
  for (std::size_t first = 0; first < z.size(); first += 2 * rows * columns) {
    for (std::size_t j = 0; j < columns; ++j) {
      const auto place = [&](std::size_t k) { return first + 2 * ((k / 2) * columns + j) + k % 2; };
      for (std::size_t k = 0; k < 2 * rows; ++k) line[k] = z[place(k)];
      const Numbers turned = dft(line, m, sign);
      for (std::size_t k = 0; k < 2 * rows; ++k) out[place(k)] = turned[k];
    }
  }
  return out;
}

}  // namespace

Numbers dft2(const Numbers& z, std::int64_t m, std::int64_t n, int sign) {
  return down(dft(z, n, sign), m, n, sign);
}

Numbers irdft(const Numbers& y, std::int64_t n) {
  const std::size_t half = at(n / 2 + 1), length = at(n);
  Numbers whole;
  for (std::size_t row = 0; row < y.size(); row += 2 * half) {
    for (std::size_t k = 0; k < length; ++k) {
      const bool mirrored = k >= half, alone = k == 0 || 2 * k == length;
      const std::size_t from = row + 2 * (mirrored ? length - k : k);
      whole.push_back(y[from]);
      whole.push_back(alone ? 0 : mirrored ? -y[from + 1] : y[from + 1]);
    }
  }
  const Numbers pairs = dft(whole, n, 1);
  Numbers out;
  for (std::size_t k = 0; k < pairs.size(); k += 2) out.push_back(pairs[k]);
  return out;
}

Numbers rdft2(const Numbers& x, std::int64_t m, std::int64_t n) {
  return down(rdft(x, n), m, n / 2 + 1, -1);
}
Numbers irdft2(const Numbers& y, std::int64_t m, std::int64_t n) {
  return irdft(down(y, m, n / 2 + 1, 1), n);
}

}  // namespace topograd::ops::test::reference
