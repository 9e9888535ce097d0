// Transforms of odd lengths and activations with their derivatives, on views, against plain loops,
// on one device.
#include "operation_cases.hpp"
#include "tensor_cases.hpp"
#include "tensor_references.hpp"

#include "../../../ops/tensor/operations.hpp"

#include <cmath>
#include <numbers>

namespace topograd::ops::test {
namespace {

/// Products of 2, 3, 5 and 7, primes, and neighbours of powers of two.
const std::vector<std::int64_t> kLengths = {1, 2, 31, 32, 33, 255, 256, 257, 1000, 1021};

using Shapes = std::vector<Shape>;

}  // namespace

const std::vector<OperationCase>& transforms() {
  const auto pairs = [](std::int64_t n) { return Shapes{{2, n, 2}}; };
  const auto planes = [](std::int64_t n) { return Shapes{{3, n, 2}}; };
  const auto tall = [](std::int64_t n) { return Shapes{{n, 3, 2}}; };
  static const std::vector<OperationCase> all = {
      {"fft", pairs, [](const Tensors& x, O o) { return fft(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft(x[0], n, -1); }, 5e-6},
      {"ifft", pairs, [](const Tensors& x, O o) { return ifft(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft(x[0], n, 1); }, 5e-6},
      {"rfft",
       [](std::int64_t n) {
         return Shapes{{2, n}};
       },
       [](const Tensors& x, O o) { return rfft(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::rdft(x[0], n); }, 5e-6},
      {"irfft",
       [](std::int64_t n) {
         return Shapes{{2, n / 2 + 1, 2}, {1, n}};
       },
       [](const Tensors& x, O o) { return irfft(x[0], x[1].size(-1), o); },
       [](const Inputs& x, std::int64_t n) { return reference::irdft(x[0], n); }, 5e-6},
      {"fft2 of rows", planes, [](const Tensors& x, O o) { return fft2(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft2(x[0], 3, n, -1); }, 5e-6},
      {"fft2 of columns", tall, [](const Tensors& x, O o) { return fft2(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft2(x[0], n, 3, -1); }, 5e-6},
      {"ifft2 of rows", planes, [](const Tensors& x, O o) { return ifft2(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft2(x[0], 3, n, 1); }, 5e-6},
      {"ifft2 of columns", tall, [](const Tensors& x, O o) { return ifft2(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::dft2(x[0], n, 3, 1); }, 5e-6},
      {"rfft2",
       [](std::int64_t n) {
         return Shapes{{3, n}};
       },
       [](const Tensors& x, O o) { return rfft2(x[0], o); },
       [](const Inputs& x, std::int64_t n) { return reference::rdft2(x[0], 3, n); }, 5e-6},
      {"irfft2",
       [](std::int64_t n) {
         return Shapes{{3, n / 2 + 1, 2}, {1, n}};
       },
       [](const Tensors& x, O o) { return irfft2(x[0], x[1].size(-1), o); },
       [](const Inputs& x, std::int64_t n) { return reference::irdft2(x[0], 3, n); }, 5e-6},
  };
  return all;
}

namespace {

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double standard_logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Activation {
  const char* name;
  Tensor (*run)(const Tensor&);
  double (*want)(double);
  double (*slope)(double);
};

constexpr Activation kActivations[] = {
    {"relu", relu, [](double x) { return x > 0 ? x : 0; },
     [](double x) { return x > 0 ? 1.0 : 0.0; }},
    {"leaky_relu", leaky_relu, [](double x) { return x > 0 ? x : 0.01 * x; },
     [](double x) { return x > 0 ? 1 : 0.01; }},
    {"elu", elu, [](double x) { return x > 0 ? x : std::expm1(x); },
     [](double x) { return x > 0 ? 1 : std::exp(x); }},
    {"gelu", gelu, [](double x) { return x * normal_below(x); },
     [](double x) { return normal_below(x) + x * normal_density(x); }},
    {"sigmoid", sigmoid, standard_logistic,
     [](double x) { return standard_logistic(x) * standard_logistic(-x); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); },
     [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }},
    {"silu", silu, [](double x) { return x * standard_logistic(x); },
     [](double x) { return standard_logistic(x) * (1 + x * standard_logistic(-x)); }},
    {"softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }, standard_logistic},
};

/// Each activation, and its derivative times another tensor.
std::vector<OperationCase> activations() {
  std::vector<OperationCase> out;
  for (const Activation& a : kActivations) {
    const auto shape = [](std::int64_t n) { return Shapes{{n > 1000 ? 1 : 3, n}}; };
    const auto two = [](std::int64_t n) {
      return Shapes{{n > 1000 ? 1 : 3, n}, {n > 1000 ? 1 : 3, n}};
    };
    out.push_back({a.name, shape, [a](const Tensors& x, O) { return a.run(x[0]); },
                   [a](const Inputs& x, std::int64_t) {
                     Numbers y;
                     for (const double v : x[0]) y.push_back(a.want(v));
                     return y;
                   },
                   3e-6, 1e-13, 0, 1'000'003, true});
    out.push_back({a.name, two,
                   [a](const Tensors& x, O) {
                     Tensor v = x[0].detach();
                     v.requires_grad();
                     a.run(v).backward(x[1]);
                     return v.grad();
                   },
                   [a](const Inputs& x, std::int64_t) {
                     Numbers y;
                     for (std::size_t k = 0; k < x[0].size(); ++k)
                       y.push_back(a.slope(x[0][k]) * x[1][k]);
                     return y;
                   },
                   3e-6, 1e-13, 0});
  }
  return out;
}

}  // namespace

void check_transforms_of_views(const Device& device) {
  check_operation_cases(transforms(), device, false, kLengths);
}
void check_activations_of_views(const Device& device) {
  check_operation_cases(activations(), device, true);
}

}  // namespace topograd::ops::test
