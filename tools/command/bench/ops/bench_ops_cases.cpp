// The operations that `bench ops` times, their arrays, and their timing.
#include "bench_ops_cases.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "../../../../ops/arrays.hpp"
#include "../../../../ops/backend/backend.hpp"
#include "../../../../ops/tensors.hpp"
#include "../measure/measure.hpp"

namespace topograd::command {
namespace {

constexpr double kWarmUpMicroseconds = 1'000'000, kWarmUpOfSoftware = 20'000;
// Total time of the samples; longer work is timed once.
constexpr double kEnoughMicroseconds = 5'000'000, kEnoughOfSoftware = 1'000'000;

using ops::Array;

/// Ten operations per element.
template <class T>
T ten(const T& v) {
  const T a = v * 1.5 + 0.25, b = a * a - v, c = b * 0.5 + a;
  return (c - 1.0) * c + b;
}

}  // namespace

Times time_on(const ops::Device& device, int samples, const std::function<void()>& work) {
  ops::OpBackend& backend = device.backend();
  std::vector<double> clock, wall;
  // Devices that were idle while the CPU was timed need time to reach their clock rates.
  const bool software = device.facts().software();
  const double warm = software ? kWarmUpOfSoftware : kWarmUpMicroseconds;
  const double most = software ? kEnoughOfSoftware : kEnoughMicroseconds;
  const double enough = device.is_cpu() ? 0 : warm;
  double spent = 0;
  for (int k = 0; k < 1 || (!device.is_cpu() && k < 2) || spent < enough; ++k) {
    spent += wall_us([&] {
      work();
      backend.synchronise();
    });
  }
  double sampled = 0;
  for (int k = 0; k < samples && sampled < most; ++k) {
    double by_clock = 0;
    backend.synchronise();
    backend.clock().begin();
    const double us = wall_us([&] {
      work();
      backend.synchronise();
    });
    backend.clock().end([&](std::optional<double> measured) { by_clock = measured.value_or(0); });
    backend.synchronise();
    sampled += us;
    wall.push_back(us);
    clock.push_back(by_clock > 0 ? by_clock : us);
  }
  return {median(clock), median(wall)};
}

double time_with_transfers(int samples, const std::function<std::function<void()>()>& make) {
  std::vector<double> times;
  for (int k = 0; k < samples; ++k) times.push_back(wall_us(make()));
  return median(times);
}

std::vector<OpCase> array_cases() {
  using In = const OpInputs&;
  return {
      {"map", 8, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(map([](Value v) { return v * 2.0 + 1.0; }, in.x)); };
       }},
      {"zip", 12, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(zip([](Value a, Value b) { return a * b; }, in.x, in.y)); };
       }},
      {"map of ten", 8, nullptr,
       [](In in) -> OpWork {
         return [in] { return reading(map([](Value v) { return ten(v); }, in.x)); };
       }},
      {"ten maps", 80, nullptr,
       [](In in) -> OpWork {
         return [in] {
           Array<float> a = in.x;
           for (int k = 0; k < 10; ++k) a = map([](Value v) { return v * 1.5; }, a);
           return reading(a);
         };
       }},
      {"reduce", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(sum(in.x)); }; }},
      {"dot", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(dot(in.x, in.y)); }; }},
      {"compensated sum", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(compensated_sum(in.x)); }; }},
      {"product", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(product(in.x)); }; }},
      {"min", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(ops::min(in.x)); }; }},
      {"max", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(ops::max(in.x)); }; }},
      {"norm", 4, nullptr, [](In in) -> OpWork { return [in] { return reading(norm(in.x)); }; }},
      {"argmax", 4, nullptr,
       [](In in) -> OpWork { return [in] { return reading(ops::argmax(in.x)); }; }},
      {"segmented reduce", 4, nullptr,
       [](In in) -> OpWork {
         std::vector<std::uint32_t> starts;
         for (std::uint64_t k = 0; k < in.count(); k += 100)
           starts.push_back(static_cast<std::uint32_t>(k));
         starts.push_back(static_cast<std::uint32_t>(in.count()));
         const Array<std::uint32_t> at(starts);
         return [in, at] { return reading(segmented_reduce(ops::Reduction::sum, in.x, at)); };
       }},
      {"histogram", 4, nullptr,
       [](In in) -> OpWork { return [in] {
                               return reading(histogram(in.x, {256, 0, 1}));
                             }; }},
      {"scan", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(inclusive_scan(in.x)); }; }},
      {"exclusive scan", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(exclusive_scan(in.x)); }; }},
      {"compact", 6, nullptr,
       [](In in) -> OpWork {
         return [in] {
           return reading(compact(
               [](Value v) { return select(v > literal(0.5), literal(1), literal(0)); }, in.x));
         };
       }},
      {"gather", 12, nullptr,
       [](In in) -> OpWork { return [in] { return reading(gather(in.x, in.indices)); }; }},
      {"scatter", 16, nullptr,
       [](In in) -> OpWork {
         // Sums grow between runs, so they must not change the inputs of other operations.
         const Array<float> sums = map([](Value v) { return v + literal(1); }, in.y);
         return [in, sums] {
           Array<float> target = sums;
           scatter(in.x, in.indices, target, ops::Combine::add);
           return reading(target);
         };
       }},
      {"sort", 8, nullptr, [](In in) -> OpWork { return [in] { return reading(sort(in.keys)); }; }},
      {"argsort", 8, nullptr,
       [](In in) -> OpWork { return [in] { return reading(argsort(in.keys)); }; }},
      {"sort by key", 16, nullptr,
       [](In in) -> OpWork { return [in] { return reading(sort_by_key(in.keys, in.x).second); }; }},
      {"random uniform", 4, nullptr,
       [](In in) -> OpWork {
         const auto placed = in.x.untyped().storage->placed();
         return [n = in.count(), o = ops::OpOptions{.device = placed}] {
           return reading(ops::random_uniform<float>(n, 1, 0, o));
         };
       }},
      {"random normal", 4, nullptr,
       [](In in) -> OpWork {
         const auto placed = in.x.untyped().storage->placed();
         return [n = in.count(), o = ops::OpOptions{.device = placed}] {
           return reading(ops::random_normal<float>(n, 1, 0, o));
         };
       }},
  };
}

namespace {

using ops::Array;
using ops::Device;
using ops::Tensor;

std::int64_t side_of(double count) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::sqrt(count)));
}

/// A square matrix of the first numbers of x.
Tensor square_of(const Array<float>& x) {
  const std::int64_t side = side_of(static_cast<double>(x.size()));
  return ops::tensor(x.slice(0, static_cast<std::uint64_t>(side * side)), {side, side});
}

// Length of rows.
constexpr std::int64_t kRow = 1000;
Tensor rows_of(const Array<float>& x) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / kRow;
  if (rows == 0) return ops::tensor(x, {1, static_cast<std::int64_t>(x.size())});
  return ops::tensor(x.slice(0, static_cast<std::uint64_t>(rows * kRow)), {rows, kRow});
}

/// Complex signals with a power of two of numbers, at most a million.
Tensor signals_of(const Array<float>& x) {
  const std::uint64_t numbers = std::max<std::uint64_t>(x.size() / 2, 1);
  const std::uint64_t length = std::min<std::uint64_t>(std::bit_floor(numbers), 1u << 20);
  const std::uint64_t used = numbers / length * length;
  if (x.size() < 2) return ops::zeros({1, 1, 2});
  return ops::tensor(x.slice(0, 2 * used), {static_cast<std::int64_t>(used / length),
                                            static_cast<std::int64_t>(length), 2});
}

constexpr std::int64_t kChannels = 16;
OpWork convolution(const OpInputs& in) {
  const std::int64_t side = side_of(static_cast<double>(in.count()) / kChannels);
  Tensor images = ops::zeros({1, kChannels, 3, 3}),
         weights = ops::ones({kChannels, kChannels, 3, 3});
  const auto used = static_cast<std::uint64_t>(kChannels * side * side);
  if (side >= 3) images = ops::tensor(in.x.slice(0, used), {1, kChannels, side, side});
  if (const auto device = images.placed()) weights = weights.to(*device);
  return [=] { return reading(ops::conv2d(images, weights, {.padding = 1})); };
}

OpWork filter(const OpInputs& in) {
  const Tensor image = square_of(in.x);
  return [image] {
    return reading(ops::filter2d(image, std::vector<double>{1, 2, 1, 0, 3, 0, -1, -2, 5}, 3, 3));
  };
}

OpWork map_of_rows(const OpInputs& in, Tensor (*f)(const Tensor&)) {
  return [x = rows_of(in.x), f] { return reading(f(x)); };
}
template <Tensor (*F)(const Tensor&)>
OpWork of_rows(const OpInputs& in) {
  return map_of_rows(in, F);
}

/// A loss between rows of numbers.
template <Tensor (*F)(const Tensor&, const Tensor&)>
OpWork loss(const OpInputs& in) {
  return [x = rows_of(in.x), y = rows_of(in.y)] { return reading(F(x, y)); };
}

Tensor huber(const Tensor& a, const Tensor& b) { return ops::huber_loss(a, b, 0.25); }
Tensor tukey(const Tensor& a, const Tensor& b) { return ops::tukey_loss(a, b, 0.5); }
Tensor leaky(const Tensor& x) { return ops::leaky_relu(x); }
Tensor elu_of(const Tensor& x) { return ops::elu(x); }
Tensor row_sums(const Tensor& x) { return ops::sum(x, {-1}); }
Tensor column_sums(const Tensor& x) { return ops::sum(x, {0}); }

OpWork transposed(const OpInputs& in) {
  return [x = square_of(in.x)] { return reading(x.transpose().reshape({-1})); };
}

template <Tensor (*F)(const Tensor&, std::int64_t, ops::PoolOptions)>
OpWork pooling(const OpInputs& in) {
  const std::int64_t side = side_of(static_cast<double>(in.count()));
  return [x = square_of(in.x), size = std::min<std::int64_t>(2, side)] {
    return reading(F(x, size, {}));
  };
}

OpWork half_product(const OpInputs& in) {
  return [a = square_of(in.x).to(ops::Type::f16).evaluate(),
          b = square_of(in.y).to(ops::Type::f16).evaluate()] { return reading(ops::matmul(a, b)); };
}

OpWork image_spectrum(const OpInputs& in) {
  const std::int64_t side = side_of(static_cast<double>(in.count()) / 2);
  Tensor z = ops::zeros({1, 1, 2});
  if (in.count() >= 2)
    z = ops::tensor(in.x.slice(0, static_cast<std::uint64_t>(2 * side * side)), {side, side, 2});
  return [z] { return reading(ops::fft2(z)); };
}

OpWork similarity(const OpInputs& in) {
  const Tensor targets = rows_of(in.x), query = targets.slice(0, 0, 1);
  return [=] { return reading(ops::cosine_similarity(query, targets)); };
}

double square_product(double count) {
  const auto n = static_cast<double>(side_of(count));
  return n * n * n;
}

std::int64_t pictures_of(double count) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(count / 784));
}

struct Trainee {
  Tensor x, y;
  ops::nn::Sequential net;

  Trainee(const NetworkSize& size, const Device& device)
      : x(ops::rand({size.pictures, size.pixels}, 3, ops::Type::f32, Device::cpu()).to(device)),
        y(ops::map([](const Value& k) { return topograd::mod(k, literal(10)); },
                   ops::arange(size.pictures))
              .to(device)),
        net{ops::nn::Dense(size.pixels, size.hidden, 1), ops::relu,
            ops::nn::Dense(size.hidden, 10, 2)} {
    net.to(device);
  }
  Tensor forward() const { return ops::cross_entropy(net(x), y); }
  void backward(const Tensor& loss) const {
    for (const Tensor& p : net.parameters()) p.zero_grad();
    loss.backward();
  }
  Tensor loss() const {
    const Tensor out = forward();
    backward(out);
    return out.detach();
  }
};

double network_arithmetic(double pictures) { return 3 * pictures * (784.0 * 512 + 512 * 10); }

}  // namespace

OpInputs make_op_inputs(std::uint64_t count, const Device& device) {
  OpInputs in{Array<float>(count), Array<float>(count), Array<std::uint32_t>(count),
              Array<std::uint32_t>(count)};
  std::uint64_t state = 88172645463325252ull;
  const std::span<float> x = in.x.write(), y = in.y.write();
  const std::span<std::uint32_t> keys = in.keys.write(), indices = in.indices.write();
  for (std::uint64_t i = 0; i < count; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    x[i] = static_cast<float>(state >> 40) * 0x1p-24f;
    y[i] = static_cast<float>(state >> 20 & 0xffff) * 0x1p-16f;
    keys[i] = static_cast<std::uint32_t>(state);
    indices[i] = static_cast<std::uint32_t>((state >> 32) % count);
  }
  for (const ops::Slice& s :
       {in.x.untyped(), in.y.untyped(), in.keys.untyped(), in.indices.untyped()})
    s.storage->place(device);
  return in;
}

OpInputs fresh_op_inputs(const OpInputs& of, const Device& device) {
  OpInputs in{Array<float>(of.x.read()), Array<float>(of.y.read()),
              Array<std::uint32_t>(of.keys.read()), Array<std::uint32_t>(of.indices.read())};
  for (const ops::Slice& s :
       {in.x.untyped(), in.y.untyped(), in.keys.untyped(), in.indices.untyped()})
    s.storage->place(device);
  return in;
}

std::vector<OpCase> tensor_cases() {
  using In = const OpInputs&;
  return {
      {"matmul", 0, square_product,
       [](In in) -> OpWork {
         return [a = square_of(in.x), b = square_of(in.y)] { return reading(ops::matmul(a, b)); };
       }},
      {"matmul f16", 0, square_product, half_product},
      {"transpose", 8, nullptr, transposed},
      {"sum of rows", 4, nullptr, of_rows<row_sums>},
      {"sum of columns", 4, nullptr, of_rows<column_sums>},
      {"conv2d", 0, [](double count) { return count * 9 * kChannels; }, convolution},
      {"filter 3x3", 8, nullptr, filter},
      {"fft", 8, nullptr,
       [](In in) -> OpWork { return [z = signals_of(in.x)] { return reading(ops::fft(z)); }; }},
      {"rfft", 8, nullptr,
       [](In in) -> OpWork { return [x = rows_of(in.x)] { return reading(ops::rfft(x)); }; }},
      {"fft2", 8, nullptr, image_spectrum},
      {"max pool 2x2", 5, nullptr, pooling<ops::max_pool2d>},
      {"avg pool 2x2", 5, nullptr, pooling<ops::avg_pool2d>},
      {"relu", 8, nullptr, [](In in) { return map_of_rows(in, ops::relu); }},
      {"leaky relu", 8, nullptr, of_rows<leaky>},
      {"elu", 8, nullptr, of_rows<elu_of>},
      {"gelu", 8, nullptr, [](In in) { return map_of_rows(in, ops::gelu); }},
      {"sigmoid", 8, nullptr, [](In in) { return map_of_rows(in, ops::sigmoid); }},
      {"tanh", 8, nullptr, [](In in) { return map_of_rows(in, ops::tanh); }},
      {"silu", 8, nullptr, [](In in) { return map_of_rows(in, ops::silu); }},
      {"softplus", 8, nullptr, [](In in) { return map_of_rows(in, ops::softplus); }},
      {"mse loss", 8, nullptr, loss<ops::mse_loss>},
      {"mae loss", 8, nullptr, loss<ops::mae_loss>},
      {"huber loss", 8, nullptr, loss<huber>},
      {"tukey loss", 8, nullptr, loss<tukey>},
      {"binary cross entropy", 8, nullptr, loss<ops::binary_cross_entropy>},
      {"cross entropy", 8, nullptr, loss<ops::cross_entropy>},
      {"softmax", 8, nullptr,
       [](In in) -> OpWork { return [x = rows_of(in.x)] { return reading(ops::softmax(x)); }; }},
      {"log softmax", 8, nullptr,
       [](In in) -> OpWork {
         return [x = rows_of(in.x)] { return reading(ops::log_softmax(x)); };
       }},
      {"layer norm", 8, nullptr,
       [](In in) -> OpWork { return [x = rows_of(in.x)] { return reading(ops::layer_norm(x)); }; }},
      {"cosine similarity", 4, nullptr, similarity},
      {"top 10", 4, nullptr,
       [](In in) -> OpWork {
         const Tensor x = rows_of(in.x);
         const std::int64_t k = std::min<std::int64_t>(10, x.size(-1));
         return [x, k] { return reading(ops::top_k(x, k).values); };
       }},
      {"training step", 0,
       [](double count) { return network_arithmetic(static_cast<double>(pictures_of(count))); },
       [](In in) {
         const auto device = in.x.untyped().storage->placed();
         return training_work({.pictures = pictures_of(static_cast<double>(in.count()))},
                              device.value_or(Device::cpu()));
       }},
  };
}

OpRead reading(const Tensor& result) {
  result.evaluate();
  return [result] { ops::array_of<float>(result).read(); };
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> all = array_cases();
  for (const OpCase& one : tensor_cases()) all.push_back(one);
  return all;
}

OpWork arithmetic_work(const OpInputs& inputs) {
  return [inputs] {
    return reading(map(
        [](Value v) {
          Value a = v;
          for (int k = 0; k < kArithmeticDepth; ++k) a = topograd::fma(a, v, literal(0.25));
          return a;
        },
        inputs.x));
  };
}

std::function<Tensor()> training_steps(const NetworkSize& size, const Device& device) {
  const Trainee trainee(size, device);
  auto adam = std::make_shared<ops::nn::Adam>(trainee.net.parameters());
  return [trainee, adam] {
    Tensor loss = trainee.loss();
    adam->step();
    return loss;
  };
}

OpWork training_work(const NetworkSize& size, const Device& device) {
  return [step = training_steps(size, device)] { return reading(step()); };
}

OpWork backward_work(const NetworkSize& size, const Device& device) {
  const Trainee trainee(size, device);
  const Tensor loss = trainee.forward().evaluate();
  device.synchronise();
  return [trainee, loss] {
    trainee.backward(loss);
    return reading(trainee.net.parameters()[0].grad());
  };
}

OpWork forward_backward_work(const NetworkSize& size, const Device& device) {
  return [trainee = Trainee(size, device)] { return reading(trainee.loss()); };
}

}  // namespace topograd::command
