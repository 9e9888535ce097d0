// Convolutions, filters and pooling against plain loops, with NaN and infinities, on one device.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/operations.hpp"

#include <limits>

namespace topograd::ops::test {
namespace {

void check_pooling(const Device& device) {
  struct Case {
    std::int64_t height, width, size;
    PoolOptions options;
  };
  for (const Case& c : {Case{5, 7, 2, {}}, Case{5, 7, 3, {.stride = 1}}, Case{4, 4, 4, {}},
                        Case{33, 31, 3, {.stride = 2, .padding = 1}},
                        Case{6, 5, 2, {.stride = 3, .padding = 1}}, Case{1, 1, 1, {}}}) {
    const Tensor images = sample({2, c.height, c.width}, 18).to(device);
    const auto x = held(images);
    const std::int64_t stride = c.options.stride == 0 ? c.size : c.options.stride;
    const auto places = [&](std::int64_t n) {
      return (n + 2 * c.options.padding - c.size) / stride + 1;
    };
    std::vector<double> most, means;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t y = 0; y < places(c.height); ++y)
        for (std::int64_t z = 0; z < places(c.width); ++z) {
          double largest = -std::numeric_limits<double>::infinity(), sum = 0;
          for (std::int64_t k = 0; k < c.size * c.size; ++k) {
            const std::int64_t row = y * stride + k / c.size - c.options.padding;
            const std::int64_t column = z * stride + k % c.size - c.options.padding;
            if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
            const double v = x[static_cast<std::size_t>((n * c.height + row) * c.width + column)];
            largest = std::max(largest, v);
            sum += v;
          }
          most.push_back(largest);
          means.push_back(sum / static_cast<double>(c.size * c.size));
        }
    const std::string what = to_text({c.height, c.width, c.size, stride, c.options.padding});
    const Tensor pooled = max_pool2d(images, c.size, c.options);
    EXPECT_EQ(pooled.shape(), (Shape{2, places(c.height), places(c.width)})) << what;
    expect_near(pooled, most, 0, "max_pool2d " + what);
    expect_near(avg_pool2d(images, c.size, c.options), means, 2e-6, "avg_pool2d " + what);
  }
}

}  // namespace

void check_conv(const Device& device) {
  struct Case {
    ConvOptions options;
    std::int64_t height, width, rows, columns;
  };
  for (const Case& c : {Case{{}, 7, 9, 3, 2}, Case{{2, 1, 1}, 8, 33, 3, 3},
                        Case{{1, 2, 2}, 9, 5, 3, 1}, Case{{3, 0, 1}, 31, 32, 1, 4}}) {
    const Tensor a = sample({2, 3, c.height, c.width}, 12).to(device);
    const Tensor w = sample({4, 3, c.rows, c.columns}, 13).to(device);
    const Tensor out = conv2d(a, w, c.options);
    const auto x = held(a), k = held(w);
    std::vector<double> want;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t o = 0; o < 4; ++o)
        for (std::int64_t y = 0; y < out.size(2); ++y)
          for (std::int64_t z = 0; z < out.size(3); ++z) {
            double sum = 0;
            for (std::int64_t t = 0; t < 3 * c.rows * c.columns; ++t) {
              const std::int64_t ch = t / (c.rows * c.columns), i = t / c.columns % c.rows;
              const std::int64_t row =
                  y * c.options.stride + i * c.options.dilation - c.options.padding;
              const std::int64_t column =
                  z * c.options.stride + t % c.columns * c.options.dilation - c.options.padding;
              if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
              sum +=
                  x[static_cast<std::size_t>(((n * 3 + ch) * c.height + row) * c.width + column)] *
                  k[static_cast<std::size_t>(o * 3 * c.rows * c.columns + t)];
            }
            want.push_back(sum);
          }
    expect_near(out, want, 1e-5, "conv2d of " + to_text({c.height, c.width, c.rows, c.columns}));
  }
  // Filters repeat the border; a product of a column and a row is recognised.
  const Tensor image = sample({5, 7}, 14).to(device);
  const auto x = held(image);
  for (const bool product : {true, false}) {
    std::vector<double> kernel = {1, 2, 1, 2, 4, 2, 1, 2, 1};
    if (!product) kernel[0] = 5;
    std::vector<double> want;
    for (std::int64_t y = 0; y < 5; ++y)
      for (std::int64_t z = 0; z < 7; ++z) {
        double sum = 0;
        for (std::int64_t i = 0; i < 3; ++i)
          for (std::int64_t j = 0; j < 3; ++j)
            sum += kernel[static_cast<std::size_t>(i * 3 + j)] *
                   x[static_cast<std::size_t>(std::clamp<std::int64_t>(y + i - 1, 0, 4) * 7 +
                                              std::clamp<std::int64_t>(z + j - 1, 0, 6))];
        want.push_back(sum);
      }
    bool separated = !product;
    expect_near(filter2d(image, kernel, 3, 3, &separated), want, 3e-6, "filter");
    EXPECT_EQ(separated, product);
  }
  check_pooling(device);
}

void check_nan(const Device& device) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto on = [&](std::vector<double> numbers, Shape shape) {
    return tensor(numbers, std::move(shape)).to(device);
  };
  const std::vector<double> none(3, nan);
  for (const double odd : {nan, inf}) {
    const Tensor rows = on({1, odd, 2, 3, 3, 3}, {2, 3});
    for (const auto& f :
         {std::function<Tensor(const Tensor&)>([](const Tensor& x) { return softmax(x); }),
          std::function<Tensor(const Tensor&)>([](const Tensor& x) { return log_softmax(x); }),
          std::function<Tensor(const Tensor&)>([](const Tensor& x) { return layer_norm(x); })}) {
      const Tensor out = f(rows);
      expect_near(out.slice(0, 0, 1), none, 0, "row");
      EXPECT_FALSE(std::isnan(out.values()[4])) << "another row";
    }
    expect_near(matmul(rows, on({0, 0, 0, 1, 0, 1}, {3, 2})), {nan, 2 + odd, 0, 6}, 1e-6, "matmul");
    expect_near(cosine_similarity(on({0, 1, 0}, {3}), rows).slice(0, 0, 1), {nan}, 0, "cosine");
  }
  const Tensor x = on({nan, -inf, inf}, {3});
  expect_near(relu(x), {nan, 0, inf}, 0, "relu");
  expect_near(leaky_relu(x), {nan, -inf, inf}, 0, "leaky_relu");
  expect_near(elu(x), {nan, -1, inf}, 0, "elu");
  expect_near(gelu(x), {nan, 0, inf}, 0, "gelu");
  expect_near(silu(x), {nan, 0, inf}, 0, "silu");
  expect_near(sigmoid(x), {nan, 0, 1}, 0, "sigmoid");
  expect_near(tanh(x), {nan, -1, 1}, 0, "tanh");
  expect_near(softplus(x), {nan, 0, inf}, 0, "softplus");
  const Tensor image = on({1, nan, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
  const PoolOptions apart{.stride = 1};
  expect_near(max_pool2d(image, 2, apart), {nan, nan, 8, 9}, 0, "max_pool2d");
  expect_near(avg_pool2d(image, 2, apart), {nan, nan, 6, 7}, 1e-6, "avg_pool2d");
  const std::vector<double> shift = {0, 0, 0, 0, 0, 0, 0, 1, 0};
  expect_near(filter2d(image, shift, 3, 3), {nan, nan, nan, nan, nan, nan, 7, 8, 9}, 0, "filter2d");
  EXPECT_TRUE(std::isnan(sum(image).item()));
  const std::vector<double> spectrum = fft(on({1, 0, nan, 0}, {2, 2})).values();
  ASSERT_EQ(spectrum.size(), 4u);
  EXPECT_TRUE(std::isnan(spectrum[0]) && std::isnan(spectrum[2])) << "fft, real parts";
  for (const double v : spectrum) EXPECT_TRUE(std::isnan(v) || v == 0) << "fft";
}

}  // namespace topograd::ops::test
