// Timed operations: their inputs, the repeated work, and its timing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "../../../../ops/array/array.hpp"
#include "../../../../ops/backend/device.hpp"
#include "../../../../ops/tensor/tensor.hpp"

namespace topograd::command {

template <class F>
double wall_us(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Times in µs.
struct Times {
  double clock = 0, wall = 0;
};
/// Medians after a warm-up, by the device's clock if it has one, otherwise wall time. No sample
/// begins after 5 s, or 1 s on a software device.
Times time_on(const ops::Device& device, int samples, const std::function<void()>& work);
/// Median wall time of upload, computation and read-back; `make`, which is not timed, makes the
/// work with its numbers on the host.
double time_with_transfers(int samples, const std::function<std::function<void()>()>& make);

/// Inputs of operations.
struct OpInputs {
  ops::Array<float> x, y;  ///< in [0, 1)
  ops::Array<std::uint32_t> keys, indices;

  std::uint64_t count() const { return x.size(); }
};

/// `count` numbers of each input on the host, placed on a device: an operation uploads its inputs
/// when it first reads them.
OpInputs make_op_inputs(std::uint64_t count, const ops::Device& device);
/// The same numbers in separate memory, not yet uploaded.
OpInputs fresh_op_inputs(const OpInputs& of, const ops::Device& device);

/// Work that returns a function to read its result on the host.
using OpRead = std::function<void()>;
using OpWork = std::function<OpRead()>;

/// Returns a function that reads a computed result on the host.
template <class T>
OpRead reading(const ops::Array<T>& result) {
  return [result] { result.read(); };
}
OpRead reading(const ops::Tensor& result);

/// An operation on inputs of any size.
struct OpCase {
  const char* name;
  double bytes = 0;  ///< bytes per element that must be read or written once
  /// Multiply-adds for `count` elements; null if memory is the bound.
  double (*multiply_adds)(double count) = nullptr;
  OpWork (*prepare)(const OpInputs& inputs);
};

/// Operations on arrays and tensors.
std::vector<OpCase> op_cases();
std::vector<OpCase> array_cases();
std::vector<OpCase> tensor_cases();

/// Work on elements that is dominated by kArithmeticDepth multiply-adds each.
OpWork arithmetic_work(const OpInputs& inputs);
inline constexpr int kArithmeticDepth = 512;

/// Size of a two-layer network, and number of its training images.
struct NetworkSize {
  std::int64_t pictures = 128, pixels = 784, hidden = 512;
};
/// Each call makes a step of Adam and returns the loss before it.
std::function<ops::Tensor()> training_steps(const NetworkSize& size, const ops::Device& device);
/// The same as work whose loss is read.
OpWork training_work(const NetworkSize& size, const ops::Device& device);
/// Computes the derivatives of a loss that is computed before.
OpWork backward_work(const NetworkSize& size, const ops::Device& device);
/// Computes loss and derivatives, without a step.
OpWork forward_backward_work(const NetworkSize& size, const ops::Device& device);

}  // namespace topograd::command
