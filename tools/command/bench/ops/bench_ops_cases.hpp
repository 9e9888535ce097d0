// Operations that are timed: their inputs, and what of them is done again and again.
#pragma once

#include "../../../../ops/array/array.hpp"
#include "../../../../ops/backend/device.hpp"
#include "../../../../ops/tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace topograd::command {

/// What operations read.
struct OpInputs {
  ops::Array<float> x, y;  ///< in [0, 1)
  ops::Array<std::uint32_t> keys, places;

  std::uint64_t count() const { return x.size(); }
};

/// `count` numbers of each on the host, placed on a device: what an operation reads is uploaded
/// when it reads it.
OpInputs make_op_inputs(std::uint64_t count, const ops::Device& device);
/// The same numbers in memory of their own, not yet uploaded.
OpInputs fresh_op_inputs(const OpInputs& of, const ops::Device& device);

/// Computes something, and gives what reads the result on the host.
using OpRead = std::function<void()>;
using OpWork = std::function<OpRead()>;

/// What reads a result that is computed, or computed here.
template <class T>
OpRead reading(const ops::Array<T>& result) {
  return [result] { result.read(); };
}
OpRead reading(const ops::Tensor& result);

/// An operation on inputs of any size.
struct OpCase {
  const char* name;
  double bytes = 0;  ///< that must be read or written once, an element
  /// Multiply-adds for so many elements; null where memory is what bounds it.
  double (*multiply_adds)(double count) = nullptr;
  OpWork (*prepare)(const OpInputs& inputs);
};

/// Arrays' and tensors'.
std::vector<OpCase> op_cases();
std::vector<OpCase> array_cases();
std::vector<OpCase> tensor_cases();

/// Elements whose arithmetic is kArithmeticDepth multiply-adds each and nothing else of note.
OpWork arithmetic_work(const OpInputs& inputs);
inline constexpr int kArithmeticDepth = 512;

/// A network of two layers, and the pictures that it is trained on.
struct NetworkSize {
  std::int64_t pictures = 128, pixels = 784, hidden = 512;
};
/// Takes a step of Adam each time, and gives the loss before it.
std::function<ops::Tensor()> training_steps(const NetworkSize& size, const ops::Device& device);
/// The same as work that reads the loss.
OpWork training_work(const NetworkSize& size, const ops::Device& device);
/// Loss and derivatives without a step.
OpWork forward_backward_work(const NetworkSize& size, const ops::Device& device);

}  // namespace topograd::command
