// Operations at the fixed shapes of docs/tensors.md.
#include "bench_ops_shapes.hpp"

#include "bench_ops_cases.hpp"
#include "bench_ops_times.hpp"

#include "../../../../ops/tensors.hpp"
#include "../../../../solver/interrupts.hpp"

#include <nlohmann/json.hpp>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using ops::Device;
using ops::Shape;
using ops::Tensor;

/// An operation on random numbers of one or two shapes.
struct ShapeCase {
  const char* name;
  Shape shape;
  int operands = 1;
  double passes = 2;         ///< number of reads and writes of all numbers
  double multiply_adds = 0;  ///< 0: memory is the bound
  Tensor (*run)(const Tensor& a, const Tensor& b) = nullptr;
  ops::Type type = ops::Type::f32;
};

Tensor fifteen(const Tensor& a, const Tensor&) {
  Tensor x = a;
  for (int k = 0; k < 5; ++k) x = ops::relu(x * 1.5 + 0.25);
  return x;
}
Tensor product(const Tensor& a, const Tensor& b) { return ops::matmul(a, b); }
Tensor transform(const Tensor& a, const Tensor&) { return ops::fft(a); }

std::vector<ShapeCase> shape_cases() {
  using In = const Tensor&;
  constexpr double kProduct = 4096.0 * 4096 * 4096;
  const Shape square = {4096, 4096}, rows = {32'768, 2048};
  return {
      {"product, 4096^3, f32", square, 2, 0, kProduct, product},
      {"product, 4096^3, f16", square, 2, 0, kProduct, product, ops::Type::f16},
      {"one addition", rows, 2, 3, 0, [](In a, In b) { return a + b; }},
      {"fifteen element-wise operations", rows, 1, 2, 0, fifteen},
      {"layer norm", rows, 1, 2, 0, [](In a, In) { return ops::layer_norm(a); }},
      {"softmax", rows, 1, 2, 0, [](In a, In) { return ops::softmax(a); }},
      {"gelu", rows, 1, 2, 0, [](In a, In) { return ops::gelu(a); }},
      {"sum of all", rows, 1, 1, 0, [](In a, In) { return ops::sum(a); }},
      {"fft, 65536 of 256", {65'536, 256, 2}, 1, 2, 0, transform},
      {"fft, 16384 of 1024", {16'384, 1024, 2}, 1, 2, 0, transform},
      {"fft, 256 of 65536", {256, 65'536, 2}, 1, 2, 0, transform},
      {"fft, 16 of 2^20", {16, 1 << 20, 2}, 1, 2, 0, transform},
      {"fft, 47 of 2^20", {47, 1 << 20, 2}, 1, 2, 0, transform},
      {"fft, 16 of 10^6", {16, 1'000'000, 2}, 1, 2, 0, transform},
  };
}

ordered_json timed(const char* name, std::uint64_t count, const Device& device, int samples,
                   const OpWork& work) {
  const Times times = time_on(device, samples, [&] { work(); });
  return {{"shape", name}, {"count", count}, {"us", times.clock}, {"wall_us", times.wall}};
}

ordered_json row_of(const ShapeCase& one, const Device& device, int samples) {
  const auto numbers = [&](std::uint64_t seed) {
    return ops::rand(one.shape, seed, one.type, device).evaluate();
  };
  const Tensor a = numbers(1), b = one.operands > 1 ? numbers(2) : Tensor();
  const OpWork work = [&] { return reading(one.run(a, b)); };
  const auto count = static_cast<std::uint64_t>(a.count());
  ordered_json row = timed(one.name, count, device, samples, work);
  const double us = row["us"];
  if (one.multiply_adds > 0) {
    row["gmadd_s"] = one.multiply_adds / us * 1e-3;
  } else {
    row["gb_s"] = 4 * one.passes * static_cast<double>(count) / us * 1e-3;
  }
  return row;
}

}  // namespace

ordered_json shape_rows(const Device& device, int samples, std::optional<std::uint64_t> most) {
  ordered_json rows = ordered_json::array();
  for (const ShapeCase& one : shape_cases()) {
    if (Interrupts::came()) return rows;
    if (most && static_cast<std::uint64_t>(ops::element_count(one.shape)) > *most) continue;
    rows.push_back(row_of(one, device, samples));
  }
  constexpr NetworkSize kNetwork;
  const auto count = static_cast<std::uint64_t>(kNetwork.pictures * kNetwork.pixels);
  if (!most || count <= *most) {
    rows.push_back(timed("training step, 784-512-10, batches of 128", count, device, samples,
                         training_work(kNetwork, device)));
  }
  return rows;
}

}  // namespace topograd::command
