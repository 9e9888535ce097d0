// Tensors: numbers in a shape, operations on them, and derivatives.
#pragma once

#include "../../frontend/value/math.hpp"
#include "../backend/device.hpp"
#include "../backend/type.hpp"
#include "shape.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ops {

struct OpOptions;

namespace detail {
struct TensorState;
}

/// Numbers in a shape, row-major: f32 or f64; f16 only for storage, which arithmetic reads as f32.
///
/// A handle: copies are the same tensor; only assign() changes its contents. Element-wise
/// operations are lazy: a whole chain is computed in one kernel when a result is read. Operations
/// run where their inputs were placed (to()), otherwise where the executor expects them to be
/// fastest; data is copied only when it is read elsewhere.
///
/// Operands must have equal types (f16 is read as f32), or Error{InvalidArgument} "add: expected
/// tensors of one type, got f32 and f64" is thrown, and must not be placed on different devices.
/// Shapes broadcast as in NumPy. A tensor and the results computed from it are not thread-safe.
class Tensor {
 public:
  /// An empty handle; every use throws Error{InvalidArgument}.
  Tensor() = default;
  /// One f32 number; can be combined with f64 tensors, too.
  Tensor(double number);  // NOLINT: numbers mix with tensors

  const Shape& shape() const;
  /// Size of an axis; -1 is the last one.
  std::int64_t size(std::int64_t axis) const;
  std::int64_t count() const { return element_count(shape()); }
  std::size_t rank() const { return shape().size(); }
  Type type() const;
  explicit operator bool() const { return state_ != nullptr; }

  /// The numbers, row-major; waits until they are computed.
  std::vector<double> values() const;
  std::vector<float> floats() const;
  /// Computes the numbers and starts their copy to the host; values() then waits only for that
  /// copy, not for work queued later. Returns this.
  const Tensor& begin_read() const;
  /// The number of a tensor with a single entry. Throws Error{Shape} otherwise.
  double item() const;

  /// The same numbers; later operations on them run on that device. Throws Error{Unsupported} for
  /// f64 on a device without float64.
  Tensor to(const Device& device) const;
  Tensor to_cpu() const { return to(Device::cpu()); }
  /// Rounded to another type.
  Tensor to(Type type) const;
  /// The device on which it was placed, if any.
  std::optional<Device> placed() const;
  /// Computes it now; on a device, without waiting.
  const Tensor& evaluate() const;
  /// The same with options: on their device, or it throws; with statistics (with_options()).
  const Tensor& evaluate(const OpOptions& options) const;

  // Views: numbers are copied only if the layout requires it.

  /// The same numbers in the same order; one size may be -1. Throws Error{Shape}.
  Tensor reshape(Shape to) const;
  /// Swaps two axes.
  Tensor transpose(std::int64_t a = -2, std::int64_t b = -1) const;
  /// Axis k of the result is axes[k] of this.
  Tensor permute(const std::vector<std::int64_t>& axes) const;
  /// Entries begin, begin + step, ... below end of one axis. Throws Error{InvalidArgument} unless
  /// 0 <= begin <= end <= size and step > 0.
  Tensor slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
               std::int64_t step = 1) const;
  /// Repeats axes of size 1 (and missing axes in front). Throws Error{Shape}.
  Tensor broadcast_to(const Shape& to) const;

  // Derivatives.

  /// Makes backward() set the grad() of a tensor that was not computed. Returns this.
  ///
  /// Throws Error{InvalidArgument} if it was computed from such tensors.
  Tensor& requires_grad();
  /// True if it depends on a tensor with requires_grad().
  bool has_grad() const;
  /// Adds the derivatives of this number to grad() of every tensor on which it depends.
  ///
  /// Throws Error{Shape} unless it is one number, Error{NoParameters} if it depends on none. Cost:
  /// about twice that of the computation.
  void backward() const;
  /// The same for the sum of this times `seed`, a tensor of the same shape.
  void backward(const Tensor& seed) const;
  /// The same on the device of the options, or it throws; with statistics (with_options()).
  void backward(const OpOptions& options) const;
  void backward(const Tensor& seed, const OpOptions& options) const;
  /// The sum of derivatives from backward() since zero_grad(); zeros if there were none.
  Tensor grad() const;
  void zero_grad() const;
  /// The same numbers, as a constant for backward().
  Tensor detach() const;
  /// Replaces the numbers by others of equal shape and type; does not affect earlier results.
  /// Throws Error{InvalidArgument} if this was computed from tensors with requires_grad().
  void assign(const Tensor& numbers) const;

  explicit Tensor(std::shared_ptr<detail::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::TensorState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::TensorState> state_;
};

// Functions that create tensors. They throw Error{InvalidArgument} "full: expected sizes >= 0, got
// (2, -3)", and Error{Shape} if the numbers do not fill the shape.

Tensor tensor(std::span<const double> numbers, Shape shape, Type type = Type::f32);
Tensor tensor(std::span<const float> numbers, Shape shape);
Tensor tensor(std::initializer_list<double> numbers, Shape shape, Type type = Type::f32);
Tensor full(Shape shape, double number, Type type = Type::f32);
inline Tensor zeros(Shape shape, Type type = Type::f32) { return full(std::move(shape), 0, type); }
inline Tensor ones(Shape shape, Type type = Type::f32) { return full(std::move(shape), 1, type); }
/// 0, 1, ..., count - 1.
Tensor arange(std::int64_t count, Type type = Type::f32);
/// Independent numbers of the standard normal distribution (random_normal()), or of the uniform
/// distribution in [0, 1) (random_uniform()): a seed gives the same numbers on every device, up to
/// rounding. If a device is given, they are made there and stay there. f16 is rounded from f32.
Tensor randn(const Shape& shape, std::uint64_t seed, Type type = Type::f32,
             const std::optional<Device>& device = {});
Tensor rand(const Shape& shape, std::uint64_t seed, Type type = Type::f32,
            const std::optional<Device>& device = {});
/// The same with the next seed of a counter that all threads share: other numbers for each call,
/// but the same in every run if the order of calls is the same.
Tensor randn(const Shape& shape, Type type = Type::f32, const std::optional<Device>& device = {});
Tensor rand(const Shape& shape, Type type = Type::f32, const std::optional<Device>& device = {});
/// Sets that counter; it starts with seed(0).
void seed(std::uint64_t number);

/// Applies f to the elements of tensors whose shapes broadcast, in one kernel, fused with the
/// expressions of the inputs. C++ numbers in f are data: other numbers use the same kernel.
///
///   Tensor y = map([](std::span<const Value> v) { return v[0] * exp(-v[1]); }, {a, b});
///
/// Throws Error{Unsupported} for an `if` on a Value, for more than 8 tensors or 16 C++ numbers (8
/// for f64; use literal(c) for constants that never change).
Tensor map(const std::function<Value(std::span<const Value>)>& f,
           std::initializer_list<Tensor> tensors);
namespace detail {
/// Converts the result of a function of elements to a number: a Bool gives 1 or 0.
template <class R>
Value to_number(const R& result) {
  if constexpr (std::is_same_v<R, Bool>) {
    return result.value();
  } else {
    return result;
  }
}
}  // namespace detail
/// The same for f(Value...) with one Value per tensor.
template <class F, class... Tensors>
Tensor map(const F& f, const Tensor& first, const Tensors&... rest) {
  return map(
      [&f]<std::size_t... I>(std::index_sequence<I...>) {
        return std::function<Value(std::span<const Value>)>(
            [&f](std::span<const Value> v) { return detail::to_number(f(v[I]...)); });
      }(std::make_index_sequence<1 + sizeof...(Tensors)>{}),
      {first, rest...});
}

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);

}  // namespace topograd::ops
